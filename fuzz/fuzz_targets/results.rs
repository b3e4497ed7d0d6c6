#![no_main]

// The callers catch panics of the decoder. The fuzzer's panic hook would end the run, so replace it.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| ())),
    |data: &[u8]| sandmill_fuzzing::results(data)
);
