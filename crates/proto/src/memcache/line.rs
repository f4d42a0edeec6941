//! Lines, words and numbers as memcached reads them.
