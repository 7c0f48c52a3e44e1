//! A worker that moves nothing: it takes the worker's arguments, answers its endpoints and ends as it is told by
//! `FAKE_WORKER`, so that the supervisor can be tried without Kafka.
//!
//! `FAKE_WORKER` is empty, or one of: `crash` (ends with 7 at once), `left-rows` (stops with 3),
//! `stubborn` (ignores SIGTERM), `patient` (stops at the second SIGTERM).

#![allow(clippy::print_stderr, reason = "a test program")]

use std::io::Read as _;
use std::process::exit;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let behaviour = std::env::var("FAKE_WORKER").unwrap_or_default();
    let args: Vec<_> = std::env::args().collect();
    std::fs::read_to_string(find_value(&args, "--config")?)?;
    anyhow::ensure!(
        args.iter().any(|arg| arg == "--exit-with-parent"),
        "a worker must not outlive its parent"
    );
    if behaviour == "crash" {
        eprintln!("fake worker: no broker answers");
        exit(7);
    }
    let listener = TcpListener::bind(find_value(&args, "--listen")?).await?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    wait_stop(&behaviour, signal(SignalKind::terminate())?).await;
    exit(if behaviour == "left-rows" { 3 } else { 0 });
}

fn find_value<'a>(args: &'a [String], name: &str) -> anyhow::Result<&'a str> {
    let at = args.iter().position(|arg| arg == name);
    at.and_then(|at| args.get(at + 1))
        .map(String::as_str)
        .with_context(|| format!("{name} is missing"))
}

async fn wait_stop(behaviour: &str, mut terminate: Signal) {
    std::thread::spawn(|| {
        // The parent holds the other end of the pipe for as long as it lives.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        exit(0);
    });
    let mut signals = match behaviour {
        "stubborn" => u32::MAX,
        "patient" => 2,
        _ => 1,
    };
    while signals > 0 && terminate.recv().await.is_some() {
        signals -= 1;
    }
}

async fn answer(mut stream: TcpStream) {
    let mut request = vec![0; 1_024];
    let read = stream.read(&mut request).await.unwrap_or(0);
    let body = if request[..read].starts_with(b"GET /readyz") {
        r#"{"ready":true,"reasons":[]}"#.to_owned()
    } else {
        r#"{"sessions":[{"topic":"t","partition":0,"state":"Running","lag":4}],"holds":[],"rows_inserted":11,"rejected":0}"#
            .to_owned()
    };
    let reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(reply.as_bytes()).await;
}
