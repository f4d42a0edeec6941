//! Counters: each is written by one thread and read by any.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call it: it is a load and a store, not a locked add.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Adds one. Only the owning thread may call it.
    #[inline]
    pub fn one(&self) {
        self.add(1);
    }

    /// The present value, from any thread.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Declares the counters of one worker of a face: a struct of [`Counter`]s on cache lines of its
/// own, with their names and values in one order. `with` adds fields that are not plain counters.
#[macro_export]
macro_rules! counters {
    (
        $(#[$about:meta])* $vis:vis struct $type:ident { $($(#[$doc:meta])* $name:ident,)* }
        $(with { $($(#[$more_doc:meta])* $more:ident: $more_type:ty,)* })?
    ) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        #[repr(align(128))]
        $vis struct $type {
            $($(#[$doc])* $vis $name: $crate::Counter,)*
            $($($(#[$more_doc])* $vis $more: $more_type,)*)?
        }

        impl $type {
            /// The names of the counters, in the order of `values`.
            $vis const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// The present values of the counters.
            $vis fn values(&self) -> Vec<u64> {
                vec![$(self.$name.get(),)*]
            }
        }
    };
}
