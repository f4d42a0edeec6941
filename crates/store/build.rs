//! Tells the compiler of the configuration the models in `tests/loom.rs` are built with.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=build.rs");
}
