//! Serves ClickHouse: loads the server library and hands it the command line.
//!
//! Usage: `clickhouse-host <libchdb.so> <clickhouse-local arguments…>`. Must not be here: anything about where the
//! library comes from or how a server is configured (that is `components` and `stack`).
#![allow(
    unsafe_code,
    reason = "a C library is loaded and called; this program is nothing else"
)]
#![allow(
    clippy::print_stderr,
    reason = "the message is for the person who reads the server's log"
)]

use std::ffi::{CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use libloading::{Library, Symbol};

/// `query_stable_v2` of the library: runs the `clickhouse local` program with C's `argc` and `argv`.
type RunProgram = unsafe extern "C" fn(c_int, *mut *mut c_char) -> *mut c_void;

fn main() -> ExitCode {
    match serve(std::env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("clickhouse-host: {message}");
            ExitCode::FAILURE
        }
    }
}

fn serve(mut args: Vec<OsString>) -> Result<(), String> {
    if args.is_empty() {
        return Err("expected the path of libchdb.so as the first argument".into());
    }
    let library_path = args.remove(0);
    let c_strings = build_argv(args)?;
    // SAFETY: loading runs the library's initialisers. The file is the checksummed one of the cache folder, this
    // program does nothing else before it, and the handle lives as long as `main`.
    let library = unsafe { Library::new(&library_path) }
        .map_err(|error| format!("cannot load {}: {error}", library_path.display()))?;
    run(&library, c_strings)
}

/// C strings of the program's name and its arguments.
fn build_argv(args: Vec<OsString>) -> Result<Vec<CString>, String> {
    std::iter::once(OsString::from("clickhouse"))
        .chain(args)
        .map(|arg| CString::new(arg.into_vec()).map_err(|_| "an argument holds a zero byte".into()))
        .collect()
}

fn run(library: &Library, c_strings: Vec<CString>) -> Result<(), String> {
    let mut pointers: Vec<*mut c_char> = c_strings.into_iter().map(CString::into_raw).collect();
    let count = c_int::try_from(pointers.len()).map_err(|_| "too many arguments".to_owned())?;
    // C programs may rely on `argv[argc] == NULL`.
    pointers.push(std::ptr::null_mut());
    // SAFETY: `RunProgram` is the signature that the library's header gives this symbol.
    let program: Symbol<'_, RunProgram> = unsafe { library.get(b"query_stable_v2\0") }
        .map_err(|error| format!("the library has no query_stable_v2: {error}"))?;
    // SAFETY: `pointers` holds `count` zero-terminated strings and a null after them. They are leaked on purpose:
    // the library may keep and even permute them for as long as the process lives.
    unsafe { program(count, pointers.as_mut_ptr()) };
    std::mem::forget(pointers);
    Ok(())
}
