//! Generates the data. Every run generates the same data.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

const FILES_PER_FOLDER: usize = 1000;

const WORDS: [&str; 16] = [
    "mill",
    "sand",
    "grain",
    "stone",
    "wheel",
    "river",
    "flour",
    "sack",
    "of",
    "the",
    "and",
    "a",
    "wind",
    "slowly",
    "twenty-four",
    "unmistakable",
];

/// Writes text files of 1 to 4 KB.
pub(crate) fn files(folder: &Path, count: usize) -> io::Result<()> {
    let mut random = XorShift(0x5eed_0001);
    for number in 0..count {
        let inner = folder.join(format!("d{:02}", number / FILES_PER_FOLDER));
        if number % FILES_PER_FOLDER == 0 {
            fs::create_dir_all(&inner)?;
        }
        let size = 1024 + random.below(3 * 1024);
        let mut text = String::with_capacity(size + 16);
        while text.len() < size {
            text.push_str(WORDS[random.below(WORDS.len())]);
            text.push(if random.below(9) == 0 { '\n' } else { ' ' });
        }
        text.truncate(size);
        fs::write(inner.join(format!("f{number:05}.txt")), text)?;
    }
    Ok(())
}

/// Writes a CSV file with an id and ten floats in each row. The floats are between -2 and 2 with six decimal
/// places.
pub(crate) fn table(path: &Path, rows: usize) -> io::Result<()> {
    let mut random = XorShift(0x5eed_0002);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(b"id,f0,f1,f2,f3,f4,f5,f6,f7,f8,f9\n")?;
    let mut line = Vec::new();
    let mut integer = itoa::Buffer::new();
    for id in 0..rows {
        line.clear();
        line.extend_from_slice(integer.format(id).as_bytes());
        for _ in 0..10 {
            let millionths = random.below(4_000_000);
            line.push(b',');
            if millionths < 2_000_000 {
                line.push(b'-');
            }
            let millionths = millionths % 2_000_000;
            line.push(b'0' + (millionths / 1_000_000) as u8);
            line.push(b'.');
            let mut unit = 100_000;
            while unit > 0 {
                line.push(b'0' + (millionths / unit % 10) as u8);
                unit /= 10;
            }
        }
        line.push(b'\n');
        file.write_all(&line)?;
    }
    file.flush()
}

/// The random number generator xorshift64*.
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        (bits as usize) % limit
    }
}
