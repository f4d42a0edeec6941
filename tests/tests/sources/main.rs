//! The sources of pages: origins, FastCGI, applications, files.
//! One executable: a suite is a module, `cargo test --test sources SUITE::` runs one.

mod apps;
mod apps_hostile;
mod fastcgi;
mod fastcgi_groups;
mod fastcgi_hostile;
mod fastcgi_php;
mod fastcgi_responders;
mod files;
mod files_kept;
mod origin_connections;
mod origin_faults;
mod origin_groups;
mod origin_limit;
mod origin_names;
mod origin_out;
mod send_files;
mod sendfile_cache;
mod spawn_fcgi;
