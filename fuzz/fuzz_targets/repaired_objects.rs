#![no_main]

use std::sync::LazyLock;

use cedrat_tests::hostile_objects;
use libfuzzer_sys::fuzz_target;

static SAMPLE: LazyLock<cedrat_tests::Image> = LazyLock::new(hostile_objects::objects_sample);

fuzz_target!(|input: &[u8]| {
    let _ = hostile_objects::repaired_objects(&SAMPLE, input);
});
