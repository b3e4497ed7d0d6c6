//! The format of the copied parts of logs: a line of JSON that lists pieces of files, then their bytes. Several chunks
//! in a row are a chunk, too.

use crate::model::is_inside;
use serde::{Deserialize, Serialize};

/// The format that this version writes and reads.
const FORMAT: u32 = 1;

/// Where a piece of a file belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    /// The file's path in the log tree.
    pub(super) path: String,
    /// The offset of the piece in the file.
    pub(super) offset: u64,
    /// The length of the piece, in bytes.
    pub(super) bytes: usize,
    /// Whether the file's earlier content is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) restarts: bool,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    pieces: Vec<Piece>,
}

/// Pieces that are being collected.
#[derive(Debug, Default)]
pub(super) struct ChunkBuilder {
    pieces: Vec<Piece>,
    bytes: Vec<u8>,
}

impl ChunkBuilder {
    /// The bytes of all pieces so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a piece of the file at this path.
    pub(super) fn add(&mut self, path: &str, offset: u64, restarts: bool, bytes: &[u8]) {
        let path = path.to_owned();
        self.pieces.push(Piece { path, offset, bytes: bytes.len(), restarts });
        self.bytes.extend_from_slice(bytes);
    }

    /// The chunk. Empty if there are no pieces.
    pub(super) fn encode(self) -> Vec<u8> {
        if self.pieces.is_empty() {
            return Vec::new();
        }
        // Plain data always serialises. If it did not, no reader would accept the chunk.
        let header = Header { format: FORMAT, pieces: self.pieces };
        let mut chunk = serde_json::to_vec(&header).unwrap_or_default();
        chunk.push(b'\n');
        chunk.extend_from_slice(&self.bytes);
        chunk
    }
}

/// The pieces of a chunk, in order. The error says what is wrong with it.
pub(super) fn decode(mut chunk: &[u8]) -> Result<Vec<(Piece, &[u8])>, String> {
    let mut found = Vec::new();
    while !chunk.is_empty() {
        let line_end = chunk.iter().position(|byte| *byte == b'\n').ok_or("a line is missing")?;
        let header = &chunk[..line_end];
        chunk = &chunk[line_end + 1..];
        let header: serde_json::Value =
            serde_json::from_slice(header).map_err(|e| e.to_string())?;
        // Check the format first: other formats may have other fields.
        let format = header.get("format").and_then(serde_json::Value::as_u64);
        if format != Some(FORMAT.into()) {
            return Err(format!("its format is {format:?}, this program knows {FORMAT}"));
        }
        let header: Header = serde_json::from_value(header).map_err(|e| e.to_string())?;
        for piece in header.pieces {
            if !is_inside(piece.path.as_ref()) {
                return Err(format!("it names the file {:?}", piece.path));
            }
            let bytes = chunk.get(..piece.bytes).ok_or("it is too short")?;
            chunk = &chunk[piece.bytes..];
            found.push((piece, bytes));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(pieces: &[(&str, u64, bool, &[u8])]) -> Vec<u8> {
        let mut builder = ChunkBuilder::default();
        for (path, offset, restarts, bytes) in pieces {
            builder.add(path, *offset, *restarts, bytes);
        }
        builder.encode()
    }

    #[test]
    fn chunks_are_read_back_also_in_a_row() {
        assert_eq!(chunk(&[]), b"");
        let first = chunk(&[("a/b.txt", 7, false, b"one\n{"), ("c", 0, true, b"")]);
        let second = chunk(&[("c", 0, false, b"\n\n")]);
        let all = [first.clone(), second].concat();
        let found = decode(&all).unwrap();
        let bytes: Vec<&[u8]> = found.iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(bytes, [&b"one\n{"[..], b"", b"\n\n"]);
        let expected = Piece { path: "a/b.txt".into(), offset: 7, bytes: 5, restarts: false };
        assert_eq!(found[0].0, expected);
        assert!(found[1].0.restarts);
        for end in 1..first.len() {
            assert!(decode(&first[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_piece_cannot_lead_out_of_the_log_tree() {
        for path in ["", "/etc/x", "../x", "a/../../x", "./x"] {
            let error = decode(&chunk(&[(path, 0, false, b"x")])).unwrap_err();
            assert!(error.contains("it names the file"), "{path}: {error}");
        }
        let later = b"{\"format\":2}\n";
        assert!(decode(later).unwrap_err().contains("format"));
    }
}
