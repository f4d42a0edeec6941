//! Declares the `loom` configuration, with which the models in `tests/loom.rs` are built.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=build.rs");
}
