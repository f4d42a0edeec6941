//! The admin pages, the dashboard and `larder top`.
//! One executable: a suite is a module, `cargo test --test live SUITE::` runs one.

mod admin;
mod admin_pages;
mod admin_purge;
mod admin_watch;
mod dashboard;
mod queues_shown;
mod top;
mod top_hostile;
