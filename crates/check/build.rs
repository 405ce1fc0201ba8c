//! Lets the crate know how it is optimised.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo::rustc-env=CEDRAT_CHECK_OPT_LEVEL={level}");
}
