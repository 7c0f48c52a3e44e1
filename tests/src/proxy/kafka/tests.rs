//! The Kafka proxy against a small server that answers each request with its correlation id.

use std::net::TcpListener;

use super::*;

fn request(key: ApiKey, id: i32) -> Vec<u8> {
    let mut frame = 8_i32.to_be_bytes().to_vec();
    frame.extend(key.0.to_be_bytes());
    frame.extend(0_i16.to_be_bytes());
    frame.extend(id.to_be_bytes());
    frame
}

/// A server that answers at once.
fn start_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_all(&stream));
        }
    });
    port
}

fn answer_all(mut stream: &TcpStream) {
    while let Ok(Some(frame)) = read_frame(&mut stream) {
        let reply = [&4_i32.to_be_bytes(), frame.get(8..12).unwrap()].concat();
        stream.write_all(&reply).unwrap();
    }
}

fn start_proxy(dir: &Path) -> (KafkaProxy, TcpStream) {
    let advertised = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let port = FaultPort {
        broker: start_server(),
        advertised,
    };
    let list = dir.join("ports.json");
    fs::write(&list, serde_json::to_vec(&[port]).unwrap()).unwrap();
    let proxy = KafkaProxy::start(&list).unwrap();
    let client = TcpStream::connect(proxy.bootstrap()).unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    (proxy, client)
}

fn read_id(client: &mut TcpStream) -> Option<i32> {
    parse_correlation(&read_frame(client).ok()??, 4)
}

fn wait_for_held(proxy: &KafkaProxy, key: ApiKey, count: usize) {
    let give_up = Instant::now() + Duration::from_secs(5);
    while proxy.held(key) != count {
        assert!(
            Instant::now() < give_up,
            "held {} instead of {count}",
            proxy.held(key)
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn held_commits_wait_while_heartbeats_pass_them() {
    let dir = tempfile::tempdir().unwrap();
    let (proxy, mut client) = start_proxy(dir.path());
    proxy.set(KafkaFault::HoldRequests(ApiKey::OFFSET_COMMIT));
    client
        .write_all(&request(ApiKey::OFFSET_COMMIT, 1))
        .unwrap();
    client.write_all(&request(ApiKey::HEARTBEAT, 2)).unwrap();
    assert_eq!(read_id(&mut client), Some(2));
    assert_eq!(proxy.held(ApiKey::OFFSET_COMMIT), 1);
    proxy.pass();
    assert_eq!(read_id(&mut client), Some(1));
    assert_eq!(
        (
            proxy.held(ApiKey::OFFSET_COMMIT),
            proxy.requests(ApiKey::OFFSET_COMMIT)
        ),
        (0, 1)
    );
}

#[test]
fn held_replies_come_when_the_fault_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let (proxy, mut client) = start_proxy(dir.path());
    proxy.set(KafkaFault::HoldReplies(ApiKey::OFFSET_COMMIT));
    client
        .write_all(&request(ApiKey::OFFSET_COMMIT, 7))
        .unwrap();
    wait_for_held(&proxy, ApiKey::OFFSET_COMMIT, 1);
    proxy.pass();
    assert_eq!(read_id(&mut client), Some(7));
}

#[test]
fn a_hang_keeps_everything_and_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let (proxy, mut client) = start_proxy(dir.path());
    proxy.set(KafkaFault::Hang);
    for id in 1..=3 {
        client.write_all(&request(ApiKey::FETCH, id)).unwrap();
    }
    wait_for_held(&proxy, ApiKey::FETCH, 3);
    proxy.pass();
    assert_eq!(
        [(); 3].map(|()| read_id(&mut client)),
        [Some(1), Some(2), Some(3)]
    );
}

#[test]
fn a_cut_closes_open_connections_and_new_ones_until_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let (proxy, mut client) = start_proxy(dir.path());
    proxy.set(KafkaFault::Cut);
    assert_eq!(read_id(&mut client), None);
    let ask = || {
        let mut client = TcpStream::connect(proxy.bootstrap()).unwrap();
        let _ = client.write_all(&request(ApiKey::FETCH, 9));
        read_id(&mut client)
    };
    assert_eq!(ask(), None);
    proxy.pass();
    assert_eq!(ask(), Some(9));
}

#[test]
fn a_listener_is_lent_to_one_proxy_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("ports.json");
    let port = FaultPort {
        broker: 1,
        advertised: 2,
    };
    fs::write(&list, serde_json::to_vec(&[port]).unwrap()).unwrap();
    let (_, lease) = lease_port(&list, Duration::ZERO).unwrap();
    let error = lease_port(&list, Duration::from_millis(60))
        .unwrap_err()
        .to_string();
    assert!(error.contains("in use"), "{error}");
    drop(lease);
    lease_port(&list, Duration::ZERO).unwrap();
}
