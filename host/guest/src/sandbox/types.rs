//! Parameters and results as they lie in the guest's memory.
//!
//! Results are lifted by hand: all rows into one buffer that is kept between calls, because one
//! allocation a row would cost more than the copy. They must be copied at all since the guest frees
//! them as soon as its function has returned. Nothing here fails because of too large results: the
//! size is counted to its end, copying stops at the limit, and the instance stays whole.

use arrow::buffer::Buffer;
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use wasmtime::component::__internal::wasmtime_environ::component::StringEncoding;
use wasmtime::component::__internal::{
    CanonicalAbiInfo, InstanceType, InterfaceType, LiftContext, LowerContext,
};
use wasmtime::component::{ComponentType, Lift, Lower, WasmList, WasmStr};
use wasmtime::{Result, ValRaw, bail};

/// `mini-batch`.
#[derive(Clone, Copy, ComponentType, Lower)]
#[component(variant)]
pub(super) enum MiniBatch<'a> {
    #[component(name = "files")]
    Files(&'a [String]),
    #[component(name = "table")]
    Table(Pieces<'a>),
    #[component(name = "void")]
    Void,
}

/// `mini-batch-context`.
#[derive(Clone, Copy, ComponentType, Lower)]
#[component(record)]
pub(super) struct Context<'a> {
    pub(super) id: u64,
    pub(super) dataset: &'a str,
    pub(super) attempt: u32,
    #[component(name = "partition-key-value")]
    pub(super) partition_key_value: &'a [(String, String)],
}

/// `results`.
#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Results {
    #[component(name = "rows")]
    Rows(Rows),
    #[component(name = "outcomes")]
    Outcomes(Outcomes),
    #[component(name = "table")]
    Table(Table),
}

thread_local! {
    /// What results of the running call may take, in bytes of the guest's memory.
    static LIMIT: Cell<u64> = const { Cell::new(0) };
    /// Buffers that the last call gave back.
    static SPARE: RefCell<(Vec<u8>, Vec<u64>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Buffers that grew beyond this are given back to the machine.
const KEEP: usize = 16 << 20;

/// Sets the limit on results for the next call on this thread.
pub(super) fn set_limit(bytes: u64) {
    LIMIT.set(bytes);
}

/// Bytes out of the guest's memory, and where each text in them ends.
#[derive(Default)]
pub(super) struct Copied {
    bytes: Vec<u8>,
    /// Twice the end, plus one if the text says why an item failed.
    ends: Vec<u64>,
    /// What the guest returned, in bytes of its memory, whether copied or not.
    pub(super) size: u64,
}

/// One text among [`Copied`].
pub(super) struct Entry<'a> {
    pub(super) text: &'a str,
    pub(super) failed: bool,
}

impl Copied {
    /// How many texts there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    fn new() -> Self {
        let (mut bytes, mut ends) = SPARE.take();
        bytes.clear();
        ends.clear();
        Self { bytes, ends, size: 0 }
    }

    /// Whether more was returned than the limit allows.
    pub(super) fn too_large(&self) -> bool {
        self.size > LIMIT.get()
    }

    fn push(&mut self, bytes: &[u8], failed: bool) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push((self.bytes.len() as u64) << 1 | u64::from(failed));
    }

    /// The raw bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All texts, in order.
    ///
    /// # Errors
    /// The number of the text, from 0, that is no valid UTF-8.
    pub(super) fn entries(&self) -> Result<impl Iterator<Item = Entry<'_>>, usize> {
        let bounds = || {
            let mut start = 0;
            self.ends.iter().map(move |end| {
                let range = start..(*end >> 1) as usize;
                start = range.end;
                (range, end & 1 == 1)
            })
        };
        // All at once is much faster than text by text.
        let valid = std::str::from_utf8(&self.bytes).ok();
        let whole = valid.filter(|all| bounds().all(|(range, _)| all.is_char_boundary(range.end)));
        let Some(all) = whole else {
            let wrong =
                bounds().position(|(range, _)| std::str::from_utf8(&self.bytes[range]).is_err());
            return Err(wrong.unwrap_or(0));
        };
        Ok(bounds().map(move |(range, failed)| Entry { text: &all[range], failed }))
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if self.bytes.capacity() <= KEEP && self.ends.capacity() <= KEEP / 8 {
            let buffers = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.ends));
            // The thread may be ending; then they are simply freed.
            let _ = SPARE.try_with(|spare| spare.replace(buffers));
        }
    }
}

/// `list<string>`.
pub(super) struct Rows(pub(super) Copied);
/// `list<result<string, string>>`.
pub(super) struct Outcomes(pub(super) Copied);
/// `list<u8>`.
pub(super) struct Table(pub(super) Copied);
/// `string`, of an error: what is longer than [`Text::LIMIT`] is cut.
pub(super) struct Text(pub(super) String);

impl Text {
    /// Bytes of an error's text that are kept.
    pub(super) const LIMIT: usize = 64 << 10;
}

/// Pointer and length in 32-bit memory; the contract has no other.
fn pair(bytes: &[u8]) -> (usize, usize) {
    let word = |at: usize| {
        bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
    };
    (word(0), word(4))
}

fn flat_pair(flat: &[ValRaw; 2]) -> (usize, usize) {
    (flat[0].get_u32() as usize, flat[1].get_u32() as usize)
}

/// The memory of a list of `count` elements of `size` bytes, aligned to words if they are larger.
fn list<'a>(cx: &LiftContext<'a>, at: (usize, usize), size: usize) -> Result<&'a [u8]> {
    let (start, count) = at;
    if size > 1 && !start.is_multiple_of(4) {
        bail!("a list in the results is not aligned");
    }
    let end = count.checked_mul(size).and_then(|length| start.checked_add(length));
    match end.and_then(|end| cx.memory().get(start..end)) {
        Some(bytes) => Ok(bytes),
        None => bail!("a list or string in the results lies outside of the guest's memory"),
    }
}

/// Copies a string of the guest, whose size is counted in any case.
fn copy_string(
    cx: &mut LiftContext<'_>,
    copied: &mut Copied,
    element: &[u8],
    failed: bool,
    utf8: bool,
) -> Result<()> {
    if utf8 {
        let text = list(cx, pair(element), 1)?;
        copied.size += text.len() as u64;
        if !copied.too_large() {
            copied.push(text, failed);
        }
        return Ok(());
    }
    if !copied.too_large() {
        let text = String::linear_lift_from_memory(cx, InterfaceType::String, element)?;
        copied.size += text.len() as u64;
        copied.push(text.as_bytes(), failed);
    }
    Ok(())
}

fn is_utf8(cx: &LiftContext<'_>) -> bool {
    matches!(cx.options().string_encoding, StringEncoding::Utf8)
}

fn lift_rows(cx: &mut LiftContext<'_>, at: (usize, usize)) -> Result<Rows> {
    let elements = list(cx, at, 8)?;
    let utf8 = is_utf8(cx);
    let mut copied = Copied::new();
    copied.size = elements.len() as u64;
    for element in elements.chunks_exact(8) {
        copy_string(cx, &mut copied, element, false, utf8)?;
    }
    Ok(Rows(copied))
}

fn lift_outcomes(cx: &mut LiftContext<'_>, at: (usize, usize)) -> Result<Outcomes> {
    let elements = list(cx, at, 12)?;
    let utf8 = is_utf8(cx);
    let mut copied = Copied::new();
    copied.size = elements.len() as u64;
    for element in elements.chunks_exact(12) {
        let failed = match element[0] {
            0 => false,
            1 => true,
            other => bail!("an outcome in the results is neither ok nor error, but {other}"),
        };
        copy_string(cx, &mut copied, &element[4..], failed, utf8)?;
    }
    Ok(Outcomes(copied))
}

fn lift_table(cx: &mut LiftContext<'_>, at: (usize, usize)) -> Result<Table> {
    let bytes = list(cx, at, 1)?;
    let mut copied = Copied::new();
    copied.size = bytes.len() as u64;
    if !copied.too_large() {
        copied.bytes.extend_from_slice(bytes);
    }
    Ok(Table(copied))
}

fn lift_text(cx: &mut LiftContext<'_>, at: (usize, usize)) -> Result<Text> {
    if !is_utf8(cx) {
        let place = u32::try_from(at.0)?;
        let length = u32::try_from(at.1)?;
        let element = [place.to_le_bytes(), length.to_le_bytes()].concat();
        return String::linear_lift_from_memory(cx, InterfaceType::String, &element).map(Text);
    }
    let bytes = list(cx, at, 1)?;
    let kept = &bytes[..bytes.len().min(Text::LIMIT)];
    let mut text = String::from_utf8_lossy(kept).into_owned();
    if kept.len() < bytes.len() {
        text.push_str("... (cut)");
    }
    Ok(Text(text))
}

/// Implements the traits for a type that the guest passes as pointer and length, where `$like` is
/// a type of wasmtime's with the same type and layout in a component.
macro_rules! lift {
    ($type:ty, $like:ty, $lift:ident) => {
        // SAFETY: the lowered form and layout are those of `$like`, which has the same type in a
        // component, as `typecheck` makes sure.
        unsafe impl ComponentType for $type {
            type Lower = [ValRaw; 2];
            const ABI: CanonicalAbiInfo = <$like as ComponentType>::ABI;
            fn typecheck(ty: &InterfaceType, types: &InstanceType<'_>) -> Result<()> {
                <$like as ComponentType>::typecheck(ty, types)
            }
        }
        // SAFETY: pointer and length are read as `typecheck` promises them, and every access to the
        // guest's memory is checked.
        unsafe impl Lift for $type {
            fn linear_lift_from_flat(
                cx: &mut LiftContext<'_>,
                _: InterfaceType,
                flat: &Self::Lower,
            ) -> Result<Self> {
                $lift(cx, flat_pair(flat))
            }
            fn linear_lift_from_memory(
                cx: &mut LiftContext<'_>,
                _: InterfaceType,
                bytes: &[u8],
            ) -> Result<Self> {
                $lift(cx, pair(bytes))
            }
        }
    };
}

lift!(Rows, WasmList<WasmStr>, lift_rows);
lift!(Outcomes, WasmList<std::result::Result<WasmStr, WasmStr>>, lift_outcomes);
lift!(Table, WasmList<u8>, lift_table);
lift!(Text, WasmStr, lift_text);

/// Bytes that lie in pieces, and become one list in the guest's memory.
#[derive(Clone, Copy)]
pub(super) struct Pieces<'a>(pub(super) &'a [Buffer]);

impl Pieces<'_> {
    /// Copies them into memory that the guest gives; returns place and length.
    fn lower<T>(self, cx: &mut LowerContext<'_, T>) -> Result<(u32, u32)> {
        let size = self.0.iter().map(Buffer::len).sum();
        let start = cx.realloc(0, 0, 1, size)?;
        let mut rest = cx.as_slice_mut().get_mut(start..).unwrap_or_default();
        for piece in self.0 {
            let Some((place, behind)) = rest.split_at_mut_checked(piece.len()) else {
                bail!("the guest's memory ends before what it is given");
            };
            place.copy_from_slice(piece);
            rest = behind;
        }
        Ok((u32::try_from(start)?, u32::try_from(size)?))
    }
}

// SAFETY: everything is what `[u8]` says.
unsafe impl ComponentType for Pieces<'_> {
    type Lower = <[u8] as ComponentType>::Lower;
    const ABI: CanonicalAbiInfo = <[u8] as ComponentType>::ABI;
    fn typecheck(ty: &InterfaceType, types: &InstanceType<'_>) -> Result<()> {
        <[u8] as ComponentType>::typecheck(ty, types)
    }
}

// SAFETY: place and length are written as `[u8]` writes them: all of `dst`, or eight bytes at `offset`.
unsafe impl Lower for Pieces<'_> {
    fn linear_lower_to_flat<T>(
        &self,
        cx: &mut LowerContext<'_, T>,
        _: InterfaceType,
        dst: &mut MaybeUninit<Self::Lower>,
    ) -> Result<()> {
        let (start, size) = self.lower(cx)?;
        dst.write([start, size].map(|number| ValRaw::i64(number.into())));
        Ok(())
    }

    fn linear_lower_to_memory<T>(
        &self,
        cx: &mut LowerContext<'_, T>,
        _: InterfaceType,
        offset: usize,
    ) -> Result<()> {
        let (start, size) = self.lower(cx)?;
        *cx.get(offset) = start.to_le_bytes();
        *cx.get(offset + 4) = size.to_le_bytes();
        Ok(())
    }
}
