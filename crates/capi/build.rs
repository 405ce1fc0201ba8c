//! Sets the name of the shared library, so that programs find a compatible version when they start.

fn main() {
    // Before 1.0 each minor version may break compatibility.
    println!(
        "cargo:rustc-cdylib-link-arg=-Wl,-soname,libcedrat.so.{}.{}",
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR")
    );
    println!("cargo:rerun-if-changed=build.rs");
}
