#![no_main]

use std::sync::LazyLock;

use cedrat_tests::hostile;
use libfuzzer_sys::fuzz_target;

static SAMPLE: LazyLock<cedrat_tests::Image> = LazyLock::new(hostile::graph_sample);

fuzz_target!(|input: &[u8]| {
    let _ = hostile::repaired_graph(&SAMPLE, input);
});
