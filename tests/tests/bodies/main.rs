//! Bodies: compression, ESI, slices, published pages.
//! One executable: a suite is a module, `cargo test --test bodies SUITE::` runs one.

mod compression;
mod compression_matrix;
mod dictionary;
mod dictionary_site;
mod esi;
mod esi_answers;
mod esi_coded;
mod esi_limits;
mod esi_varnish;
mod mcpage;
mod publish;
mod slices;
mod slices_auto;
mod store_forms;
