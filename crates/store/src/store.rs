//! Skeleton of the public API; being filled.
#![allow(unused_variables, clippy::todo, missing_docs)]
use crate::types::*;
use std::marker::PhantomData;
use std::task::{Context, Poll};

pub const MAX_CONTIGUOUS: usize = 128 * 1024;
pub struct Store {}
type Part<'a> = &'a [u8];

impl Store {
    pub fn open(o: Options) -> Result<Store, OpenError> { todo!() }
    pub fn get<'s>(&'s self, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> { todo!() }
    pub fn peek<'s>(&'s self, ns: Namespace, key: &[u8], now: Ms) -> Option<Entry<'s>> { todo!() }
    pub fn set(&self, ns: Namespace, key: &[u8], put: Put<'_>, now: Ms) -> Result<u64, PutError> { todo!() }
    pub fn add(&self, ns: Namespace, key: &[u8], put: Put<'_>, now: Ms) -> Result<u64, PutError> { todo!() }
    pub fn replace(&self, ns: Namespace, key: &[u8], put: Put<'_>, now: Ms) -> Result<u64, PutError> { todo!() }
    pub fn cas(&self, ns: Namespace, key: &[u8], put: Put<'_>, expected: u64, now: Ms) -> Result<u64, PutError> { todo!() }
    pub fn append(&self, ns: Namespace, key: &[u8], parts: &[Part<'_>], now: Ms) -> Result<u64, PutError> { todo!() }
    pub fn prepend(&self, ns: Namespace, key: &[u8], parts: &[Part<'_>], now: Ms) -> Result<u64, PutError> { todo!() }
    pub fn incr(&self, ns: Namespace, key: &[u8], delta: u64, now: Ms) -> Result<Counter, PutError> { todo!() }
    pub fn decr(&self, ns: Namespace, key: &[u8], delta: u64, now: Ms) -> Result<Counter, PutError> { todo!() }
    pub fn touch(&self, ns: Namespace, key: &[u8], expires: Option<Ms>, now: Ms) -> bool { todo!() }
    pub fn delete(&self, ns: Namespace, key: &[u8], now: Ms) -> bool { todo!() }
    pub fn delete_if(&self, ns: Namespace, key: &[u8], version: u64) -> bool { todo!() }
    pub fn mark_stale(&self, ns: Namespace, key: &[u8], now: Ms) -> bool { todo!() }
    pub fn flush(&self, ns: Namespace, now: Ms) { todo!() }
    pub fn purge_tag(&self, ns: Namespace, tag: &[u8], soft: bool, now: Ms) -> u64 { todo!() }
    pub fn scan(&self, ns: Namespace, cursor: Cursor, limit: usize, f: &mut dyn FnMut(&[u8], &EntryInfo) -> Keep) -> Option<Cursor> { todo!() }
    pub fn fill<'s>(&'s self, ns: Namespace, key: &[u8], o: FillOptions, now: Ms) -> Result<Fill<'s>, PutError> { todo!() }
    pub fn sweep(&self, now: Ms, budget: usize) -> usize { todo!() }
    pub fn stats(&self, ns: Namespace) -> NamespaceStats { todo!() }
    pub fn totals(&self) -> Totals { todo!() }
}

pub struct Entry<'s> { p: PhantomData<&'s Store> }
impl Entry<'_> {
    pub fn len(&self) -> u64 { todo!() }
    pub fn is_empty(&self) -> bool { self.len() == 0 }
    pub fn head(&self) -> &[u8] { todo!() }
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> { std::iter::empty() }
    pub fn chunk_at(&self, offset: u64) -> &[u8] { todo!() }
    pub fn flags(&self) -> u32 { todo!() }
    pub fn expires(&self) -> Option<Ms> { todo!() }
    pub fn version(&self) -> u64 { todo!() }
    pub fn last_access(&self) -> Ms { todo!() }
    pub fn fetched(&self) -> bool { todo!() }
    pub fn stale(&self) -> bool { todo!() }
    pub fn key(&self) -> &[u8] { todo!() }
}

pub struct Fill<'s> { p: PhantomData<&'s Store> }
impl<'s> Fill<'s> {
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PutError> { todo!() }
    pub fn reader(&self) -> FillReader<'s> { todo!() }
    pub fn set_tags(&mut self, tags: &[&[u8]]) { todo!() }
    pub fn commit(self, expires: Option<Ms>, now: Ms) -> Result<u64, PutError> { todo!() }
}

#[derive(Clone)]
pub struct FillReader<'s> { p: PhantomData<&'s Store> }
impl FillReader<'_> {
    pub fn written(&self) -> u64 { todo!() }
    pub fn chunk_at(&self, offset: u64) -> &[u8] { todo!() }
    pub fn poll(&self, offset: u64, cx: &mut Context<'_>) -> Poll<FillState> { todo!() }
}
