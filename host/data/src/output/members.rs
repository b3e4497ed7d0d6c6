//! Lines, compressed. What each attempt makes is compressed by itself: such members one behind the
//! other are a file again, so that the output is one after every commit.

use crate::model::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};

/// What zstd's own program does unless it is told otherwise.
const ZSTD_LEVEL: i32 = 3;

/// The text as a member of its own: of gzip, or, as a frame, of Zstandard. As it is for others.
pub(super) fn member(text: &[u8], compression: Compression) -> io::Result<Vec<u8>> {
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
    fn members_make_a_file() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let file =
                ["a b\n", "", "c\n"].map(|text| member(text.as_bytes(), compression).unwrap());
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
