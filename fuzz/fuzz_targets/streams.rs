#![no_main]

// The decoder's own panics are caught where it is called; the fuzzer's hook would end it all.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| ())),
    |data: &[u8]| sandmill_fuzzing::streams(data)
);
