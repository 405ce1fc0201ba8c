//! Compiles the thin C wrapper of Berkeley DB (its calls are function pointers in structs, which only C can name portably)
//! and links both peers from the system's libraries.

fn main() {
    println!("cargo:rerun-if-changed=shims/berkeley.c");
    println!("cargo:rerun-if-changed=shims/berkeley.h");
    cc::Build::new()
        .file("shims/berkeley.c")
        .include("shims")
        .flag("-std=gnu11")
        .warnings(true)
        .opt_level(2)
        .compile("bench_berkeley");
    println!("cargo:rustc-link-lib=db-5.3");
    println!("cargo:rustc-link-lib=lmdb");
}
