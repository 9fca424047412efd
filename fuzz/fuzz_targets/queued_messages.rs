#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hothouse_fuzz_targets::queued_messages(bytes));
