//! Gives the shared library its name, so that programs find a compatible one when they start.

fn main() {
    // Before 1.0 each second number may break what was.
    println!(
        "cargo:rustc-cdylib-link-arg=-Wl,-soname,libcedrat.so.{}.{}",
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR")
    );
    println!("cargo:rerun-if-changed=build.rs");
}
