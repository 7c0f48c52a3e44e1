//! The `ClickHouse` proxy against a small HTTP server that echoes the request's body and counts the requests.

use std::time::Instant;

use std::net::TcpListener;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::http::{self, Request, Response};

struct Server {
    address: String,
    served: Arc<AtomicUsize>,
}

fn start_server() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&served);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counter = Arc::clone(&counter);
            std::thread::spawn(move || echo(&stream, &counter));
        }
    });
    Server { address, served }
}

fn echo(mut stream: &TcpStream, served: &AtomicUsize) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let head = Head::read(&mut reader).ok()??;
    let mut body = Vec::new();
    copy_body(&mut reader, &mut body, head.framing(Framing::Length(0))).ok()?;
    served.fetch_add(1, Ordering::SeqCst);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), &body].concat()).ok()
}

fn post(proxy: &ClickHouseProxy, target: &str, body: &[u8]) -> io::Result<Response> {
    let request = Request {
        method: "POST",
        target,
        body,
        ..Request::default()
    };
    http::send(&proxy.address(), &request, Duration::from_millis(500))
}

const INSERT: &str = "/?query=INSERT+INTO+t&insert_deduplication_token=cs1%2Fg";

fn start() -> (Server, ClickHouseProxy) {
    let server = start_server();
    let proxy = ClickHouseProxy::start(&server.address).unwrap();
    (server, proxy)
}

#[test]
fn a_request_passes_and_is_recorded_with_its_token() {
    let (_server, proxy) = start();
    assert_eq!(post(&proxy, INSERT, b"rows").unwrap().text(), "rows");
    let seen = proxy.inserts();
    let first = seen.first().unwrap();
    assert_eq!(first.param("insert_deduplication_token"), Some("cs1/g"));
    assert_eq!((seen.len(), first.server_status), (1, Some(200)));
}

#[test]
fn a_statement_in_the_body_is_recorded() {
    let (_server, proxy) = start();
    post(&proxy, "/", b"INSERT INTO t VALUES (1)").unwrap();
    post(&proxy, "/", b"SELECT 1").unwrap();
    assert_eq!((proxy.seen().len(), proxy.inserts().len()), (2, 1));
}

#[test]
fn a_dropped_reply_is_lost_after_the_server_did_the_work() {
    let (server, proxy) = start();
    proxy.fail_next(1, Fault::DropReply, On::Inserts);
    assert!(post(&proxy, INSERT, b"rows").is_err());
    assert_eq!(server.served.load(Ordering::SeqCst), 1);
    assert_eq!(post(&proxy, INSERT, b"rows").unwrap().status, 200);
}

#[test]
fn a_hang_never_answers_and_the_server_gets_nothing() {
    let (server, proxy) = start();
    proxy.set_on(Fault::Hang, On::Inserts);
    let error = post(&proxy, INSERT, b"rows").unwrap_err();
    assert!(
        matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        ),
        "{error}"
    );
    assert_eq!(server.served.load(Ordering::SeqCst), 0);
    assert_eq!(post(&proxy, "/?query=SELECT+1", b"").unwrap().status, 200);
}

#[test]
fn a_cut_closes_open_connections_and_new_ones_until_it_is_over() {
    let (server, proxy) = start();
    let mut idle = TcpStream::connect(proxy.address()).unwrap();
    idle.write_all(b"POST / HTTP/1.1\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    proxy.set(Fault::Cut);
    assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0);
    assert!(post(&proxy, INSERT, b"rows").is_err());
    proxy.pass();
    assert!(post(&proxy, INSERT, b"rows").is_ok());
    assert_eq!(server.served.load(Ordering::SeqCst), 1);
}

#[test]
fn a_delay_lasts_as_long_as_it_says() {
    let (_server, proxy) = start();
    proxy.set(Fault::Delay(Duration::from_millis(120)));
    let started = Instant::now();
    post(&proxy, INSERT, b"rows").unwrap();
    assert!(started.elapsed() >= Duration::from_millis(120));
}

#[test]
fn a_truncated_reply_ends_within_its_body() {
    let (_server, proxy) = start();
    proxy.set(Fault::TruncateReply(3));
    let error = post(&proxy, INSERT, b"0123456789").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[test]
fn a_truncated_request_is_not_done_by_the_server() {
    let (server, proxy) = start();
    proxy.fail_next(1, Fault::TruncateRequest(3), On::All);
    assert!(post(&proxy, INSERT, b"0123456789").is_err());
    assert_eq!(server.served.load(Ordering::SeqCst), 0);
}

#[test]
fn a_canned_reply_is_given_with_or_without_the_server() {
    let (server, proxy) = start();
    proxy.set(Fault::Replace(Canned::exception_in_header(241)));
    let reply = post(&proxy, INSERT, b"rows").unwrap();
    assert_eq!(
        (reply.status, reply.header("x-clickhouse-exception-code")),
        (200, Some("241"))
    );
    assert_eq!(server.served.load(Ordering::SeqCst), 0);
    proxy.set(Fault::ReplaceReply(Canned::exception_in_body(
        241, "memory",
    )));
    assert!(
        post(&proxy, INSERT, b"rows")
            .unwrap()
            .text()
            .starts_with("Code: 241. DB::Exception: memory")
    );
    assert_eq!(server.served.load(Ordering::SeqCst), 1);
}
