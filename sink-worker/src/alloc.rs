//! Which allocator the process uses: mimalloc, for Rust and for librdkafka alike.
//!
//! librdkafka allocates each record on one thread and frees it on another, which the C library's allocator is slow at.
//! `libmimalloc-sys` with `override` defines `malloc`, `free` and the rest; Rust's `System` allocator calls them too.
//! Must not be here: an allocator of our own.

use std::ffi::c_void;

/// Keeps the linker from leaving mimalloc out: nothing else names it.
#[used]
pub static MIMALLOC: unsafe extern "C" fn(usize) -> *mut c_void = libmimalloc_sys::mi_malloc;
