// The guest and the native program include this file, so that they do the same work.

/// The row of one file: the name, the numbers of bytes, lines and words, and the 64-bit FNV-1a hash.
pub fn tally(name: &str, bytes: &[u8]) -> String {
    let mut lines = 0_u32;
    let mut words = 0_u32;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut in_word = false;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        lines += u32::from(*byte == b'\n');
        let in_word_now = !byte.is_ascii_whitespace();
        words += u32::from(in_word_now && !in_word);
        in_word = in_word_now;
    }
    format!("{name} {} {lines} {words} {hash:016x}", bytes.len())
}
