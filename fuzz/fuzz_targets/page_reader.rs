#![no_main]

use cedrat_tests::hostile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    hostile::page_reader(input);
});
