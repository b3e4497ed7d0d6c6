//! The format of an object of the log: a line of JSON that describes the record, then the payload.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The format that this version writes.
const FORMAT: u32 = 1;
/// The oldest format that this version reads. It is at least the one before [`FORMAT`].
const OLDEST_FORMAT: u32 = 1;

/// The process that appended a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// The name of its machine.
    pub host: String,
    /// Its process ID on that machine.
    pub pid: u32,
    /// When it began to write to the log, by its machine's clock.
    pub since: Timestamp,
}

impl Writer {
    /// This process, which begins to write now.
    pub fn this_process() -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self { host: host.trim().to_owned(), pid: std::process::id(), since: Timestamp::now() }
    }
}

/// Identifies a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPosition {
    /// The record's number.
    pub number: u64,
    /// A text that no other append has. It tells a leader whether a record is its own, and whether a log is
    /// the one that it knows.
    pub nonce: String,
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number and nonce.
    pub position: LogPosition,
    /// The process that appended it.
    pub writer: Writer,
    /// The content, which this crate does not interpret.
    pub payload: Vec<u8>,
}

/// What is wrong with an object of the log. The text is a clause.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordDamage {
    /// The object does not begin with a line that describes a record.
    #[error("it is not a record of a commit log")]
    NotARecord,
    /// Another version of Sandmill wrote it.
    #[error(
        "its format is {found}, and this version of sandmill reads formats {OLDEST_FORMAT} to {FORMAT}"
    )]
    Format {
        /// The format of the object.
        found: u64,
    },
    /// It is a copy of another record.
    #[error("it holds record {found}")]
    Number {
        /// The number in the object.
        found: u64,
    },
    /// Its content is not what was written.
    #[error("its content does not match its checksum")]
    Checksum,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    number: u64,
    nonce: String,
    writer: Writer,
    /// The SHA-256 of the payload, in hexadecimal.
    sha256: String,
}

/// The bytes of a record.
pub(crate) fn encode(number: u64, nonce: &str, writer: &Writer, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        format: FORMAT,
        number,
        nonce: nonce.to_owned(),
        writer: writer.clone(),
        sha256: hex::encode(Sha256::digest(payload)),
    };
    // Plain data always serialises. If it did not, no reader would accept the record.
    let mut bytes = serde_json::to_vec(&header).unwrap_or_default();
    bytes.push(b'\n');
    bytes.extend_from_slice(payload);
    bytes
}

/// Reads the bytes of the record with this number.
///
/// # Errors
/// If they are anything else.
pub(crate) fn decode(number: u64, mut bytes: Vec<u8>) -> Result<Record, RecordDamage> {
    let line_end = bytes.iter().position(|byte| *byte == b'\n').ok_or(RecordDamage::NotARecord)?;
    let payload = bytes.split_off(line_end + 1);
    let header: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|_| RecordDamage::NotARecord)?;
    // Check the format first: other formats may have other fields.
    match header.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if (OLDEST_FORMAT.into()..=FORMAT.into()).contains(&format) => {}
        Some(found) => return Err(RecordDamage::Format { found }),
        None => return Err(RecordDamage::NotARecord),
    }
    let header: Header = serde_json::from_value(header).map_err(|_| RecordDamage::NotARecord)?;
    if header.number != number {
        return Err(RecordDamage::Number { found: header.number });
    }
    if header.sha256 != hex::encode(Sha256::digest(&payload)) {
        return Err(RecordDamage::Checksum);
    }
    let position = LogPosition { number, nonce: header.nonce };
    Ok(Record { position, writer: header.writer, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(payload: &[u8]) -> Vec<u8> {
        let writer = Writer { host: "a".into(), pid: 1, since: Timestamp::UNIX_EPOCH };
        encode(7, "nonce", &writer, payload)
    }

    #[test]
    fn a_record_is_read_back() {
        for payload in [&b""[..], b"x", b"{\"a\": 1}\n\nb\xff"] {
            let record = decode(7, encoded(payload)).unwrap();
            assert_eq!(record.payload, payload);
            assert_eq!(
                (record.position.nonce.as_str(), record.writer.host.as_str()),
                ("nonce", "a")
            );
        }
    }

    /// No change of a single byte goes unnoticed, except in the description of the writer, which only
    /// messages show.
    #[test]
    fn a_damaged_record_is_refused() {
        let bytes = encoded(b"payload");
        for cut in 0..bytes.len() {
            assert!(decode(7, bytes[..cut].to_vec()).is_err(), "cut at {cut}");
        }
        let end = bytes.len();
        for index in end - 7..end {
            let mut bytes = bytes.clone();
            bytes[index] ^= 1;
            assert_eq!(decode(7, bytes), Err(RecordDamage::Checksum));
        }
        assert_eq!(decode(8, bytes), Err(RecordDamage::Number { found: 7 }));
        assert_eq!(decode(7, b"{}\n".to_vec()), Err(RecordDamage::NotARecord));
        assert_eq!(decode(7, b"\0\0\0\0\n".to_vec()), Err(RecordDamage::NotARecord));
    }

    #[test]
    fn another_format_is_named() {
        let later = b"{\"format\": 9, \"more\": true}\n".to_vec();
        assert_eq!(decode(7, later), Err(RecordDamage::Format { found: 9 }));
    }
}
