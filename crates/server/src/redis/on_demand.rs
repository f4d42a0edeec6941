//! Parts of a connection's state that few connections use. They are allocated at their first
//! change, so that an idle connection is small.

use std::ops::{Deref, DerefMut};

/// A part that is allocated at its first change.
#[derive(Debug)]
pub(crate) struct OnDemand<T>(Option<Box<T>>);

/// A type with a static default value.
pub(crate) trait StaticDefault: Default + 'static {
    fn static_default() -> &'static Self;
}

impl<T: StaticDefault> OnDemand<T> {
    pub(crate) fn new(part: T) -> Self {
        Self(Some(Box::new(part)))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.map_or_else(T::default, |part| *part)
    }
}

impl<T> Default for OnDemand<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: StaticDefault> Deref for OnDemand<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(part) => part,
            None => T::static_default(),
        }
    }
}

impl<T: StaticDefault> DerefMut for OnDemand<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

/// Implements [`StaticDefault`] for a type with a default.
macro_rules! static_default {
    ($type:ty) => {
        impl crate::redis::on_demand::StaticDefault for $type {
            fn static_default() -> &'static Self {
                static DEFAULT: std::sync::LazyLock<$type> =
                    std::sync::LazyLock::new(Default::default);
                &DEFAULT
            }
        }
    };
}
pub(super) use static_default;
