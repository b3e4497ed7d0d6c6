//! Parameters and results in the layout of the guest's memory.
//!
//! Results are lifted by hand: all rows go into one buffer that stays allocated between calls, because an
//! allocation per row would cost more than the copy. A copy is necessary, because the guest frees the results
//! as soon as its function has returned. Results that are too large do not fail here: copying stops at the
//! limit, the rest is only counted, and the instance stays usable.

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
pub(super) enum MiniBatchValue<'a> {
    #[component(name = "files")]
    Files(&'a [String]),
    #[component(name = "table")]
    Table(ByteSegments<'a>),
    #[component(name = "void")]
    Void,
}

/// `mini-batch-context`.
#[derive(Clone, Copy, ComponentType, Lower)]
#[component(record)]
pub(super) struct ContextValue<'a> {
    pub(super) id: u64,
    pub(super) dataset: &'a str,
    pub(super) attempt: u32,
    #[component(name = "partition-key-value")]
    pub(super) partition_key_value: &'a [(String, String)],
}

/// `results`.
#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum ResultsValue {
    #[component(name = "rows")]
    Rows(TextList),
    #[component(name = "outcomes")]
    Outcomes(Outcomes),
    #[component(name = "table")]
    Table(TableBytes),
}

thread_local! {
    /// The limit on the results of the current call, in bytes of the guest's memory.
    static RESULTS_LIMIT: Cell<u64> = const { Cell::new(0) };
    /// The buffers of an earlier call, for the next one.
    static SPARE_BUFFERS: RefCell<(Vec<u8>, Vec<u64>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// The maximum size of a buffer that stays allocated between calls, in bytes.
const MAX_SPARE_BYTES: usize = 16 << 20;

/// Sets the limit on the results of the next call on this thread.
pub(super) fn set_limit(bytes: u64) {
    RESULTS_LIMIT.set(bytes);
}

/// Bytes that were copied from the guest's memory, with the end of each text in these bytes.
#[derive(Default)]
pub(super) struct Copied {
    bytes: Vec<u8>,
    /// For each text, two times the end of the text, plus one if the text is the error of an item.
    ends: Vec<u64>,
    /// The size of the guest's results in bytes of the guest's memory, including results that were not
    /// copied.
    pub(super) size: u64,
}

/// A text in [`Copied`].
pub(super) struct TextRange<'a> {
    pub(super) text: &'a str,
    pub(super) failed: bool,
}

impl Copied {
    /// The number of texts.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    fn new() -> Self {
        let (mut bytes, mut ends) = SPARE_BUFFERS.take();
        bytes.clear();
        ends.clear();
        Self { bytes, ends, size: 0 }
    }

    /// Whether the results exceed the limit.
    pub(super) fn is_too_large(&self) -> bool {
        self.size > RESULTS_LIMIT.get()
    }

    fn push(&mut self, bytes: &[u8], failed: bool) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push((self.bytes.len() as u64) << 1 | u64::from(failed));
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All texts, in order.
    ///
    /// # Errors
    /// The index of the first text that is not valid UTF-8.
    pub(super) fn entries(&self) -> Result<impl Iterator<Item = TextRange<'_>>, usize> {
        let bounds = || {
            let mut start = 0;
            self.ends.iter().map(move |end| {
                let range = start..(*end >> 1) as usize;
                start = range.end;
                (range, end & 1 == 1)
            })
        };
        // Validating all bytes at once is much faster than text by text.
        let valid = std::str::from_utf8(&self.bytes).ok();
        let whole =
            valid.filter(|text| bounds().all(|(range, _)| text.is_char_boundary(range.end)));
        let Some(text) = whole else {
            let wrong =
                bounds().position(|(range, _)| std::str::from_utf8(&self.bytes[range]).is_err());
            return Err(wrong.unwrap_or(0));
        };
        Ok(bounds().map(move |(range, failed)| TextRange { text: &text[range], failed }))
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if self.bytes.capacity() <= MAX_SPARE_BYTES && self.ends.capacity() <= MAX_SPARE_BYTES / 8 {
            let buffers = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.ends));
            // If the thread is ending, the buffers are freed.
            let _ = SPARE_BUFFERS.try_with(|spare| spare.replace(buffers));
        }
    }
}

/// `list<string>`.
pub(super) struct TextList(pub(super) Copied);
/// `list<result<string, string>>`.
pub(super) struct Outcomes(pub(super) Copied);
/// `list<u8>`.
pub(super) struct TableBytes(pub(super) Copied);
/// A `string` with an error. Text beyond [`ErrorText::LIMIT`] is cut.
pub(super) struct ErrorText(pub(super) String);

impl ErrorText {
    /// The maximum length of an error's text, in bytes.
    pub(super) const LIMIT: usize = 64 << 10;
}

/// The size of a string or list in the guest's memory: a pointer and a length, of 4 bytes each.
const PAIR_BYTES: usize = 8;

/// The size of a `result<string, string>`: 4 bytes that say which case it is, and the string.
const OUTCOME_BYTES: usize = 12;

/// Reads a pointer and a length from 32-bit memory, the only kind in the contract.
fn read_pair(bytes: &[u8]) -> (usize, usize) {
    let word = |offset: usize| {
        bytes
            .get(offset..offset + 4)
            .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
    };
    (word(0), word(4))
}

fn flat_pair(flat: &[ValRaw; 2]) -> (usize, usize) {
    (flat[0].get_u32() as usize, flat[1].get_u32() as usize)
}

/// The memory of a list. `pair` is the list's pointer and length, and `size` is the size of an element in
/// bytes. Elements larger than a byte must be aligned to 4 bytes.
fn list_bytes<'a>(cx: &LiftContext<'a>, pair: (usize, usize), size: usize) -> Result<&'a [u8]> {
    let (start, count) = pair;
    if size > 1 && !start.is_multiple_of(4) {
        bail!("a list in the results is not aligned");
    }
    let end = count.checked_mul(size).and_then(|length| start.checked_add(length));
    match end.and_then(|end| cx.memory().get(start..end)) {
        Some(bytes) => Ok(bytes),
        None => bail!("a list or string in the results is outside of the guest's memory"),
    }
}

/// Adds the size of a guest's string to the count, and copies the string. If the results are too large, does
/// not copy the string, and counts it only if it is UTF-8: the size of other strings is known only after a
/// copy.
fn copy_string(
    cx: &mut LiftContext<'_>,
    copied: &mut Copied,
    element: &[u8],
    failed: bool,
    utf8: bool,
) -> Result<()> {
    if utf8 {
        let text = list_bytes(cx, read_pair(element), 1)?;
        copied.size += text.len() as u64;
        if !copied.is_too_large() {
            copied.push(text, failed);
        }
        return Ok(());
    }
    if !copied.is_too_large() {
        let text = String::linear_lift_from_memory(cx, InterfaceType::String, element)?;
        copied.size += text.len() as u64;
        copied.push(text.as_bytes(), failed);
    }
    Ok(())
}

fn is_utf8(cx: &LiftContext<'_>) -> bool {
    matches!(cx.options().string_encoding, StringEncoding::Utf8)
}

fn lift_rows(cx: &mut LiftContext<'_>, pair: (usize, usize)) -> Result<TextList> {
    let elements = list_bytes(cx, pair, PAIR_BYTES)?;
    let utf8 = is_utf8(cx);
    let mut copied = Copied::new();
    copied.size = elements.len() as u64;
    for element in elements.chunks_exact(PAIR_BYTES) {
        copy_string(cx, &mut copied, element, false, utf8)?;
    }
    Ok(TextList(copied))
}

fn lift_outcomes(cx: &mut LiftContext<'_>, pair: (usize, usize)) -> Result<Outcomes> {
    let elements = list_bytes(cx, pair, OUTCOME_BYTES)?;
    let utf8 = is_utf8(cx);
    let mut copied = Copied::new();
    copied.size = elements.len() as u64;
    for element in elements.chunks_exact(OUTCOME_BYTES) {
        let failed = match element[0] {
            0 => false,
            1 => true,
            other => bail!("an outcome in the results is neither ok nor error, but {other}"),
        };
        copy_string(cx, &mut copied, &element[4..], failed, utf8)?;
    }
    Ok(Outcomes(copied))
}

fn lift_table(cx: &mut LiftContext<'_>, pair: (usize, usize)) -> Result<TableBytes> {
    let bytes = list_bytes(cx, pair, 1)?;
    let mut copied = Copied::new();
    copied.size = bytes.len() as u64;
    if !copied.is_too_large() {
        copied.bytes.extend_from_slice(bytes);
    }
    Ok(TableBytes(copied))
}

fn lift_text(cx: &mut LiftContext<'_>, pair: (usize, usize)) -> Result<ErrorText> {
    if !is_utf8(cx) {
        let start = u32::try_from(pair.0)?;
        let length = u32::try_from(pair.1)?;
        let element = [start.to_le_bytes(), length.to_le_bytes()].concat();
        return String::linear_lift_from_memory(cx, InterfaceType::String, &element).map(ErrorText);
    }
    let bytes = list_bytes(cx, pair, 1)?;
    let kept = &bytes[..bytes.len().min(ErrorText::LIMIT)];
    let mut text = String::from_utf8_lossy(kept).into_owned();
    if kept.len() < bytes.len() {
        text.push_str("... (cut)");
    }
    Ok(ErrorText(text))
}

/// Implements the traits for a type that the guest passes as pointer and length. `$like` is the wasmtime type
/// with the same component type and layout.
macro_rules! lift {
    ($type:ty, $like:ty, $lift:ident) => {
        // SAFETY: the lowered form and layout are the same as in `$like`, which has the same component type;
        // `typecheck` verifies the component type.
        unsafe impl ComponentType for $type {
            type Lower = [ValRaw; 2];
            const ABI: CanonicalAbiInfo = <$like as ComponentType>::ABI;
            fn typecheck(ty: &InterfaceType, types: &InstanceType<'_>) -> Result<()> {
                <$like as ComponentType>::typecheck(ty, types)
            }
        }
        // SAFETY: `typecheck` guarantees the form in which pointer and length are read, and every access to
        // the guest's memory is checked.
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
                $lift(cx, read_pair(bytes))
            }
        }
    };
}

lift!(TextList, WasmList<WasmStr>, lift_rows);
lift!(Outcomes, WasmList<std::result::Result<WasmStr, WasmStr>>, lift_outcomes);
lift!(TableBytes, WasmList<u8>, lift_table);
lift!(ErrorText, WasmStr, lift_text);

/// Bytes in several pieces, which become one list in the guest's memory.
#[derive(Clone, Copy)]
pub(super) struct ByteSegments<'a>(pub(super) &'a [Buffer]);

impl ByteSegments<'_> {
    /// Copies the bytes into memory that the guest allocates. Returns the address and the length.
    fn lower<T>(self, cx: &mut LowerContext<'_, T>) -> Result<(u32, u32)> {
        let size = self.0.iter().map(Buffer::len).sum();
        let start = cx.realloc(0, 0, 1, size)?;
        let mut rest = cx.as_slice_mut().get_mut(start..).unwrap_or_default();
        for piece in self.0 {
            let Some((target, remaining)) = rest.split_at_mut_checked(piece.len()) else {
                bail!("the guest's allocator returned a range outside of its memory");
            };
            target.copy_from_slice(piece);
            rest = remaining;
        }
        Ok((u32::try_from(start)?, u32::try_from(size)?))
    }
}

// SAFETY: everything is delegated to `[u8]`.
unsafe impl ComponentType for ByteSegments<'_> {
    type Lower = <[u8] as ComponentType>::Lower;
    const ABI: CanonicalAbiInfo = <[u8] as ComponentType>::ABI;
    fn typecheck(ty: &InterfaceType, types: &InstanceType<'_>) -> Result<()> {
        <[u8] as ComponentType>::typecheck(ty, types)
    }
}

// SAFETY: address and length are written as `[u8]` writes them: all of `dst`, or eight bytes at `offset`.
unsafe impl Lower for ByteSegments<'_> {
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
