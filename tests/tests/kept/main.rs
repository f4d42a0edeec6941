//! Kept over a restart: disk, snapshot, upgrade.
//! One executable: a suite is a module, `cargo test --test kept SUITE::` runs one.

mod disk;
mod disk_crash;
mod disk_objects;
mod disk_published;
mod disk_slices;
mod disk_slices_crash;
mod disk_spelling;
mod disk_stubs;
mod disk_troubles;
mod queue_upgrade;
mod snapshot;
mod upgrade;
mod upgrade_collections;
mod upgrade_disk;
