#![no_main]

// The readers' own panics are caught where they are called; the fuzzer's hook would end it all.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| ())),
    |data: &[u8]| sandmill_fuzzing::columns(data)
);
