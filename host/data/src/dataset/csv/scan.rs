//! Finds the ends of records in a stream of CSV bytes, at memory speed if nothing is quoted. Also finds the
//! opening quotes that cannot be right: text follows the closing quote, or there is no closing quote.
//!
//! Such an opening quote is *stray*: its record ends with the quote's line, and the next line begins a new
//! record. So a scan sometimes has to go back to just after the stray quote, and scans the bytes after it
//! again. The methods *pass* bytes: they move past the bytes and update the state of the scan.

pub(super) use super::quotes::ScanStop;
use super::quotes::{OpeningQuote, QuoteRules, QuoteState, Span, StrayQuote};
use super::tally::{
    BLOCK, begins_a_line, count_lines, ends_line, ends_record, is_terminator, mask, prefix_parity,
    tally,
};
use crate::model::{CsvFormat, to_usize};
use memchr::{memchr, memchr2, memchr3};

const QUOTE: u8 = b'"';

/// How many bytes are searched for a quote before the scan decides how to pass them.
const CHUNK_BYTES: usize = 4096;
/// The maximum distance between the opening and the closing quote of a field, in bytes.
pub(super) const MAX_FIELD_BYTES: u64 = 1 << 29;

/// A scan over the bytes of one file, in order, in pieces of any size.
#[derive(Debug)]
pub(super) struct CsvScan {
    delimiter: u8,
    quote: u8,
    quotes: QuoteRules,
    escape: Option<u8>,
    /// Whether a line end after an escape is text.
    escapes_lines: bool,
    comment: Option<u8>,
    state: QuoteState,
    /// The last byte passed, or 0 after an escaped character.
    before: u8,
    /// The offset of the next byte.
    pub(super) offset: u64,
    /// The last quote that opened a field. Valid if the scan is inside a field or has just left one.
    opened: OpeningQuote,
    /// The offset of the last quote that may have closed a field with line ends. Valid if `spans` is `Some`.
    closed: u64,
    /// This is [`MAX_FIELD_BYTES`], or less for a header and in tests.
    pub(super) max_field_bytes: u64,
    /// The number of records that have ended.
    pub(super) records: u64,
    /// The number of lines that have ended, inside quotes or not.
    pub(super) lines: u64,
    /// The number of records that ended because of stray quotes.
    pub(super) stray_count: u64,
    /// The stray quotes. `None` if they are not collected.
    strays: Option<Vec<StrayQuote>>,
    /// The fields with line ends that were passed and that the caller has not yet checked. `None` if they are
    /// not collected.
    pub(super) spans: Option<Vec<Span>>,
}

impl CsvScan {
    /// A scan at the start of a record.
    pub(super) fn new(delimiter: u8, quoted_newlines: bool) -> Self {
        Self {
            delimiter,
            quote: QUOTE,
            escape: None,
            escapes_lines: quoted_newlines,
            comment: None,
            quotes: if quoted_newlines { QuoteRules::AcrossLines } else { QuoteRules::WithinLines },
            state: QuoteState::Plain,
            before: b'\n',
            offset: 0,
            opened: OpeningQuote::default(),
            closed: 0,
            max_field_bytes: MAX_FIELD_BYTES,
            records: 0,
            lines: 0,
            stray_count: 0,
            strays: None,
            spans: None,
        }
    }

    /// A scan of text in which each line that is not empty is a record.
    pub(super) fn of_lines() -> Self {
        Self { quotes: QuoteRules::Ignored, ..Self::new(0, false) }
    }

    /// A scan of text of this dialect, at the start of a record.
    pub(super) fn from_format(csv: &CsvFormat) -> Self {
        let scan = Self::new(csv.delimiter, csv.quoted_newlines);
        Self {
            quote: csv.quote.unwrap_or(QUOTE),
            quotes: if csv.quote.is_some() { scan.quotes } else { QuoteRules::Ignored },
            escape: csv.escape,
            comment: csv.comment,
            ..scan
        }
    }

    /// A scan of text in which each line that is neither empty nor a comment is a record.
    pub(super) fn of_lines_with_comments(csv: &CsvFormat) -> Self {
        Self { comment: csv.comment, ..Self::of_lines() }
    }

    /// The stray quotes of a text that starts and ends at record boundaries.
    pub(super) fn strays(text: &[u8], csv: &CsvFormat) -> Vec<StrayQuote> {
        if csv.quote.is_none_or(|quote| memchr(quote, text).is_none()) {
            return Vec::new();
        }
        let mut scan = Self { strays: Some(Vec::new()), ..Self::from_format(csv) };
        let mut rest = text;
        while let Some(back) = scan.advance(rest).or_else(|| scan.end_last_record()) {
            rest = text.get(to_usize(back)..).unwrap_or_default();
        }
        scan.strays.unwrap_or_default()
    }

    /// Whether the next byte is the first of a record or of a blank line. After a CR it may also be the LF
    /// that belongs to the CR.
    pub(super) fn at_record_start(&self) -> bool {
        self.state == QuoteState::Plain && is_terminator(self.before)
    }

    /// Whether an LF as the next byte would belong to the line end just passed.
    pub(super) fn after_cr(&self) -> bool {
        self.state == QuoteState::Plain && self.before == b'\r'
    }

    /// Whether the next byte is inside quotes, judged by the bytes so far.
    pub(super) fn is_quoted(&self) -> bool {
        self.state == QuoteState::Quoted
    }

    /// Ends the last record at the end of the file; the record needs no line end. If a field is still open,
    /// its quote is stray: then this returns the offset at which to continue, and must be called again.
    #[must_use]
    pub(super) fn end_last_record(&mut self) -> Option<u64> {
        match self.state {
            QuoteState::Comment => {
                self.state = QuoteState::Plain;
                self.before = b'\n';
            }
            QuoteState::Escaped { is_quoted: true, .. } => self.state = QuoteState::Quoted,
            QuoteState::Escaped { is_quoted: false, .. } => self.state = QuoteState::Plain,
            _ => {}
        }
        if self.state == QuoteState::Quoted {
            return Some(self.go_back(false));
        }
        if matches!(self.state, QuoteState::QuoteSeen | QuoteState::Closed) {
            self.add_span();
        }
        if !self.at_record_start() {
            self.end_stray();
            self.records += 1;
            self.state = QuoteState::Plain;
            self.before = b'\n';
        }
        None
    }

    /// Passes all of `bytes`. If it finds a stray quote, it returns the offset at which to continue, because
    /// some bytes have to be passed again.
    #[must_use]
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Option<u64> {
        if self.quotes == QuoteRules::Ignored && self.escape.is_none() && self.comment.is_none() {
            self.pass_plain(bytes);
            return None;
        }
        for chunk in bytes.chunks(CHUNK_BYTES) {
            if self.has_escape_or_comment(chunk) {
                if let Some(back) = self.advance_by_records(chunk) {
                    return Some(back);
                }
                continue;
            }
            if self.quotes == QuoteRules::Ignored {
                self.pass_plain(chunk);
                continue;
            }
            let (blocks, rest) = match self.state {
                QuoteState::Plain | QuoteState::Quoted if memchr(self.quote, chunk).is_none() => {
                    (&[][..], chunk)
                }
                _ => chunk.as_chunks::<BLOCK>(),
            };
            for block in blocks {
                if !self.try_advance_block(block)
                    && let Some(back) = self.advance_by_quotes(block)
                {
                    return Some(back);
                }
            }
            if let Some(back) = self.advance_by_quotes(rest) {
                return Some(back);
            }
        }
        self.give_up_long_field()
    }

    /// Whether the next bytes have escapes, or may have a comment.
    fn has_escape_or_comment(&self, bytes: &[u8]) -> bool {
        matches!(self.state, QuoteState::Comment | QuoteState::Escaped { .. })
            || self.escape.is_some_and(|escape| memchr(escape, bytes).is_some())
            || self.comment.is_some_and(|comment| begins_a_line(bytes, comment, self.before))
    }

    /// Passes all of `bytes`, from record to record, or returns the offset at which to continue.
    fn advance_by_records(&mut self, mut bytes: &[u8]) -> Option<u64> {
        loop {
            match self.advance_to_record_end(bytes) {
                ScanStop::All => return None,
                ScanStop::Record(end) => bytes = &bytes[end..],
                ScanStop::Back(offset) => return Some(offset),
            }
        }
    }

    /// Passes all of `bytes`, from quote to quote, or returns the offset at which to continue.
    fn advance_by_quotes(&mut self, mut bytes: &[u8]) -> Option<u64> {
        while !bytes.is_empty() {
            bytes = match self.state {
                QuoteState::Plain => {
                    let (plain, rest) =
                        bytes.split_at(memchr(self.quote, bytes).unwrap_or(bytes.len()));
                    self.pass_plain(plain);
                    if !rest.is_empty() {
                        self.pass_quote();
                    }
                    rest.get(1..).unwrap_or_default()
                }
                QuoteState::Stray => {
                    let passed = self.pass_stray(bytes).unwrap_or(bytes.len());
                    &bytes[passed..]
                }
                QuoteState::Comment | QuoteState::Escaped { .. } => {
                    return self.advance_by_records(bytes);
                }
                QuoteState::Quoted | QuoteState::QuoteSeen | QuoteState::Closed => {
                    match self.advance_quoted(bytes) {
                        Ok(rest) => rest,
                        Err(back) => return Some(back),
                    }
                }
            };
        }
        None
    }

    /// Passes a block in which quotes open and close fields in turn, as in all proper CSV. There, a byte is
    /// inside quotes if the number of quotes before it is odd (`""` counts twice, so it changes nothing).
    /// Returns false, and passes nothing, if a quote is in the middle of a field: it may be stray.
    fn try_advance_block(&mut self, block: &[u8; BLOCK]) -> bool {
        let was_quoted = match self.state {
            QuoteState::Plain if self.before != self.quote => false,
            QuoteState::Quoted | QuoteState::QuoteSeen
                if self.offset + BLOCK as u64 - self.opened.offset <= self.max_field_bytes =>
            {
                self.is_quoted()
            }
            _ => return false,
        };
        let mut before = [self.before; BLOCK];
        before[1..].copy_from_slice(&block[..BLOCK - 1]);
        let delimiter = self.delimiter;
        let quote = self.quote;
        let is_border = |byte: u8| (byte == delimiter) | (byte == quote) | is_terminator(byte);
        let quotes = mask(block, &before, |byte, _| byte == quote);
        let borders = mask(block, &before, |byte, _| is_border(byte));
        let lines = mask(block, &before, ends_line);
        let inside = prefix_parity(quotes) ^ if was_quoted { u64::MAX } else { 0 };
        let after_border = borders << 1 | u64::from(is_border(self.before));
        let after_close = (quotes & !inside) << 1 | u64::from(self.state == QuoteState::QuoteSeen);
        if (quotes & inside & !after_border) | (after_close & !borders) != 0 {
            return false;
        }
        if self.quotes == QuoteRules::WithinLines && lines & inside != 0 {
            return false;
        }
        // The second half of `""` follows a quote. An opening quote does not.
        let opens = quotes & inside & !(quotes << 1 | u64::from(self.before == quote));
        if self.spans.is_some() {
            self.add_spans(lines, opens, quotes, inside);
        }
        let last = block[BLOCK - 1];
        if opens != 0 {
            self.opened =
                OpeningQuote { offset: self.offset, lines: self.lines, opens, line_ends: lines };
        }
        self.closed = self.offset + BLOCK as u64 - 1;
        let records = mask(block, &before, ends_record) & !inside;
        self.records += u64::from(records.count_ones());
        self.lines += u64::from(lines.count_ones());
        self.before = last;
        self.offset += BLOCK as u64;
        self.state = match (inside >> (BLOCK - 1), last) {
            (1, _) => QuoteState::Quoted,
            (_, last) if last == quote => QuoteState::QuoteSeen,
            _ => QuoteState::Plain,
        };
        true
    }

    /// Adds to `spans` the fields with line ends that end in a block. The bits are those of
    /// [`Self::try_advance_block`].
    fn add_spans(&mut self, lines: u64, opens: u64, quotes: u64, inside: u64) {
        if self.state == QuoteState::QuoteSeen && quotes & 1 == 0 {
            self.add_span();
        }
        let has_lines = self.state != QuoteState::Plain && self.lines > self.opened.lines;
        if lines & inside == 0 && !has_lines {
            return;
        }
        // The last quote may be half of a pair that continues in the next block.
        let mut closing = quotes & !inside & !(quotes >> 1) & (u64::MAX >> 1);
        while closing != 0 {
            let bit = closing.trailing_zeros();
            closing &= closing - 1;
            let below = (1 << bit) - 1;
            let opened = match opens & below {
                0 => self.opened,
                opens => {
                    OpeningQuote { offset: self.offset, lines: self.lines, opens, line_ends: lines }
                }
            };
            let (opens, begun) = opened.position();
            let ended = self.lines + u64::from((lines & below).count_ones());
            if ended > begun
                && let Some(spans) = &mut self.spans
            {
                let closes = self.offset + u64::from(bit);
                spans.push(Span { opens, closes, lines: (begun + 1, ended + 1) });
            }
        }
    }

    /// Passes `bytes` up to the end of the next record.
    pub(super) fn advance_to_record_end(&mut self, bytes: &[u8]) -> ScanStop {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                QuoteState::Plain if self.at_record_start() && self.comment == Some(bytes[at]) => {
                    self.state = QuoteState::Comment;
                    continue;
                }
                QuoteState::Plain => {}
                QuoteState::Comment => {
                    at += self.pass_comment(&bytes[at..]);
                    continue;
                }
                QuoteState::Escaped { is_quoted, after_cr } => {
                    at += usize::from(self.pass_escaped(bytes[at], is_quoted, after_cr));
                    continue;
                }
                QuoteState::Stray => {
                    return self
                        .pass_stray(&bytes[at..])
                        .map_or(ScanStop::All, |passed| ScanStop::Record(at + passed));
                }
                QuoteState::Quoted | QuoteState::QuoteSeen | QuoteState::Closed => {
                    match self.advance_quoted(&bytes[at..]) {
                        Ok(rest) => at = bytes.len() - rest.len(),
                        Err(back) => return ScanStop::Back(back),
                    }
                    continue;
                }
            }
            let found = self.find_mark(&bytes[at..]);
            let text = &bytes[at..at + found.unwrap_or(bytes.len() - at)];
            self.before = text.last().copied().unwrap_or(self.before);
            self.offset += text.len() as u64;
            at += text.len() + 1;
            if found.is_none() {
                return ScanStop::All;
            }
            let byte = bytes[at - 1];
            if byte == self.quote && self.quotes != QuoteRules::Ignored {
                self.pass_quote();
                continue;
            }
            if self.escape == Some(byte) {
                self.pass_escape(byte, false);
                continue;
            }
            let ended = ends_record(byte, self.before);
            self.pass_line_end(byte);
            if ended {
                return ScanStop::Record(at);
            }
        }
        self.give_up_long_field().map_or(ScanStop::All, ScanStop::Back)
    }

    /// The index of the next byte outside quotes that may change the state.
    fn find_mark(&self, bytes: &[u8]) -> Option<usize> {
        match (self.quotes, self.escape) {
            (QuoteRules::Ignored, None) => memchr2(b'\n', b'\r', bytes),
            (_, None) => memchr3(self.quote, b'\n', b'\r', bytes),
            (quotes, Some(escape)) => bytes.iter().position(|&byte| {
                let is_quote = byte == self.quote && quotes != QuoteRules::Ignored;
                is_terminator(byte) || byte == escape || is_quote
            }),
        }
    }

    /// Passes an escape.
    fn pass_escape(&mut self, byte: u8, is_quoted: bool) {
        self.state = QuoteState::Escaped { is_quoted, after_cr: false };
        self.before = byte;
        self.offset += 1;
    }

    /// Passes the byte after an escape, if the escape makes it text. Returns whether it does.
    fn pass_escaped(&mut self, byte: u8, is_quoted: bool, after_cr: bool) -> bool {
        let is_text = match after_cr {
            true => byte == b'\n',
            false => self.escapes_lines || !is_terminator(byte),
        };
        self.state = if is_quoted { QuoteState::Quoted } else { QuoteState::Plain };
        if is_text {
            self.offset += 1;
            self.lines += u64::from(!after_cr && is_terminator(byte));
            if byte == b'\r' {
                self.state = QuoteState::Escaped { is_quoted, after_cr: true };
            }
        }
        if is_text || after_cr {
            // An escaped byte counts as neither a delimiter nor a line end.
            self.before = 0;
        }
        is_text
    }

    /// Passes bytes of a comment. Returns how many.
    fn pass_comment(&mut self, bytes: &[u8]) -> usize {
        let Some(end) = memchr2(b'\n', b'\r', bytes) else {
            self.offset += bytes.len() as u64;
            return bytes.len();
        };
        self.offset += end as u64 + 1;
        self.lines += 1;
        self.before = bytes[end];
        self.state = QuoteState::Plain;
        end + 1
    }

    /// Passes bytes outside quotes. They have no quotes, or quotes are text.
    fn pass_plain(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        let first = bytes[0];
        let rest = &bytes[1..];
        self.records += u64::from(ends_record(first, self.before));
        self.lines += u64::from(ends_line(first, self.before));
        let (records, lines) = tally(rest, &bytes[..rest.len()]);
        self.records += records;
        self.lines += lines;
        self.before = *last;
        self.offset += bytes.len() as u64;
    }

    /// Passes a byte of a line end outside quotes.
    fn pass_line_end(&mut self, byte: u8) {
        self.records += u64::from(ends_record(byte, self.before));
        self.lines += u64::from(ends_line(byte, self.before));
        self.before = byte;
        self.offset += 1;
    }

    /// Passes a quote outside quotes.
    fn pass_quote(&mut self) {
        if self.before == self.delimiter || is_terminator(self.before) {
            self.state = QuoteState::Quoted;
            let offset = self.offset;
            let lines = self.lines;
            self.opened = OpeningQuote { offset, lines, opens: 0, line_ends: 0 };
        }
        self.before = self.quote;
        self.offset += 1;
    }

    /// Passes bytes after a stray quote up to the end of the quote's line. Returns how many, or `None` if the
    /// line does not end in `bytes`.
    fn pass_stray(&mut self, bytes: &[u8]) -> Option<usize> {
        let end = memchr2(b'\n', b'\r', bytes);
        let text = &bytes[..end.unwrap_or(bytes.len())];
        self.before = text.last().copied().unwrap_or(self.before);
        self.offset += text.len() as u64;
        let end = end?;
        self.pass_line_end(bytes[end]);
        self.end_stray();
        self.state = QuoteState::Plain;
        Some(end + 1)
    }

    /// Passes bytes inside quotes up to the next change of state. Returns the rest, or the offset to go back
    /// to.
    fn advance_quoted<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], u64> {
        let Some((&byte, rest)) = bytes.split_first() else { return Ok(bytes) };
        match self.state {
            QuoteState::QuoteSeen if byte == self.quote => {
                self.state = QuoteState::Quoted;
                self.offset += 1;
                Ok(rest)
            }
            QuoteState::QuoteSeen => {
                self.state = QuoteState::Closed;
                Ok(bytes)
            }
            QuoteState::Closed if byte == self.delimiter || is_terminator(byte) => {
                self.add_span();
                self.state = QuoteState::Plain;
                Ok(bytes)
            }
            QuoteState::Closed if byte == b' ' || byte == b'\t' => {
                self.before = byte;
                self.offset += 1;
                Ok(rest)
            }
            QuoteState::Closed => Err(self.go_back(self.lines == self.opened.position().1)),
            _ => self.advance_in_field(bytes),
        }
    }

    /// Passes bytes of a quoted field up to the next quote or escape. Returns the rest, or the offset to go
    /// back to.
    fn advance_in_field<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], u64> {
        let found = match (self.quotes, self.escape) {
            (QuoteRules::WithinLines, None) => memchr3(self.quote, b'\n', b'\r', bytes),
            (QuoteRules::WithinLines, Some(_)) => self.find_mark(bytes),
            (_, None) => memchr(self.quote, bytes),
            (_, Some(escape)) => memchr2(self.quote, escape, bytes),
        };
        let (text, rest) = bytes.split_at(found.unwrap_or(bytes.len()));
        self.lines += count_lines(text, self.before);
        self.before = text.last().copied().unwrap_or(self.before);
        self.offset += text.len() as u64;
        match rest.first() {
            None => return Ok(rest),
            Some(_) if self.offset - self.opened.position().0 > self.max_field_bytes => {
                return Err(self.go_back(false));
            }
            Some(&byte) if byte == self.quote => {}
            Some(&byte) if self.escape == Some(byte) => {
                self.pass_escape(byte, true);
                return Ok(&rest[1..]);
            }
            Some(_) => return Err(self.go_back(false)),
        }
        self.state = QuoteState::QuoteSeen;
        self.closed = self.offset;
        self.before = self.quote;
        self.offset += 1;
        Ok(&rest[1..])
    }

    /// Goes back if the current field is too long: its quote is probably stray. Returns the offset to go back
    /// to.
    fn give_up_long_field(&mut self) -> Option<u64> {
        let is_long =
            self.is_quoted() && self.offset - self.opened.position().0 > self.max_field_bytes;
        is_long.then(|| self.go_back(false))
    }

    /// Goes back to just after the quote that opened the field, because it is stray. Returns that offset.
    fn go_back(&mut self, text_follows: bool) -> u64 {
        let (quote, lines) = self.opened.position();
        self.state = QuoteState::Stray;
        self.offset = quote + 1;
        self.lines = lines;
        self.before = self.quote;
        self.stray_count += 1;
        if let Some(strays) = &mut self.strays {
            strays.push(StrayQuote { quote, end: 0, text_follows });
        }
        self.offset
    }

    /// Notes the end of a record with a stray quote. Does nothing for other records.
    fn end_stray(&mut self) {
        if self.state == QuoteState::Stray
            && let Some(stray) = self.strays.as_mut().and_then(|strays| strays.last_mut())
        {
            stray.end = self.offset;
        }
    }

    /// Adds to `spans` a field that has ended, if it contains line ends.
    fn add_span(&mut self) {
        let (opens, lines) = self.opened.position();
        if self.lines > lines
            && let Some(spans) = &mut self.spans
        {
            spans.push(Span { opens, closes: self.closed, lines: (lines + 1, self.lines + 1) });
        }
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
