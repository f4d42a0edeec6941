//! Tests of the tables as a whole.

mod text;
mod typescript;
