//! The program itself: its command line, service, reload, first hour; and the harness.
//! One executable: a suite is a module, `cargo test --test program SUITE::` runs one.

mod control;
mod error_pages;
mod examples;
mod first_hour;
mod harness;
mod mount;
mod mount_calls;
mod mount_changes;
mod mount_ends;
mod mount_faults;
mod mount_pages;
mod mount_random;
mod mount_site;
mod package;
mod presets;
mod process;
mod reload;
mod service;
