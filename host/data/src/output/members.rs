//! Compresses lines. The lines of each attempt become one member (a gzip member or a Zstandard frame).
//! Members one after another form a valid file, so the output is valid after every commit.

use crate::model::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};

/// The default level of the `zstd` program.
const ZSTD_LEVEL: i32 = 3;

/// Compresses the text as a gzip member or a Zstandard frame. Other compressions leave the text unchanged.
pub(super) fn compressed_member(text: &[u8], compression: Compression) -> io::Result<Vec<u8>> {
    match compression {
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(text)?;
            encoder.finish()
        }
        Compression::Zstd => zstd::bulk::compress(text, ZSTD_LEVEL),
        Compression::None | Compression::Snappy | Compression::Lz4 => Ok(text.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn compressed_members_form_a_valid_file() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let file = ["a b\n", "", "c\n"]
                .map(|text| compressed_member(text.as_bytes(), compression).unwrap());
            let file = file.concat();
            let mut text = String::new();
            match compression {
                Compression::Gzip => {
                    flate2::read::MultiGzDecoder::new(&file[..]).read_to_string(&mut text)
                }
                _ => zstd::Decoder::new(&file[..]).unwrap().read_to_string(&mut text),
            }
            .unwrap();
            assert_eq!(text, "a b\nc\n", "{compression:?}");
        }
    }
}
