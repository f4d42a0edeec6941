//! A running twemproxy: which of its backends it asks for a key.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use larder_client::{
    Address, Server,
    hash::Hash,
    placement::{Distribution, Placement},
};

use crate::peer::{Random, agree, directory, keys};

/// Its hashes.
const HASHES: [(Hash, &str); 12] = [
    (Hash::OneAtATime, "one_at_a_time"),
    (Hash::Md5, "md5"),
    (Hash::Crc16, "crc16"),
    (Hash::Crc, "crc32"),
    (Hash::Crc32, "crc32a"),
    (Hash::Fnv1_64, "fnv1_64"),
    (Hash::Fnv1a_64, "fnv1a_64"),
    (Hash::Fnv1_32, "fnv1_32"),
    (Hash::Fnv1a_32, "fnv1a_32"),
    (Hash::Hsieh, "hsieh"),
    (Hash::Murmur, "murmur"),
    (Hash::Jenkins, "jenkins"),
];

/// A twemproxy that ends with the test.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Answers every `get` with the number of this backend.
fn answer(stream: impl Read + Write, index: usize) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let key =
            line.strip_prefix(b"get ").and_then(|key| key.strip_suffix(b"\r\n")).expect("a get");
        let key = key.trim_ascii_end();
        let (value, mut reply) = (index.to_string(), b"VALUE ".to_vec());
        reply.extend_from_slice(key);
        reply.extend_from_slice(format!(" 0 {}\r\n{value}\r\nEND\r\n", value.len()).as_bytes());
        if stream.get_mut().write_all(&reply).is_err() {
            return;
        }
        line.clear();
    }
}

fn serve(listener: TcpListener, index: usize) {
    for stream in listener.incoming() {
        let stream: TcpStream = stream.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        thread::spawn(move || answer(stream, index));
    }
}

/// Backends of every kind of name: ports, the default port, aliases, unix sockets.
fn backends(directory: &Path, random: &mut Random) -> Vec<Server> {
    let mut servers = Vec::new();
    for index in 0..8 {
        let weight = 1 + random.below(5) as u32;
        let name = (index % 3 == 2).then(|| format!("alias{index}"));
        let address = if index == 6 {
            let path = directory.join(format!("backend{index}.sock"));
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path).expect("a socket");
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let stream = stream.expect("a connection");
                    thread::spawn(move || answer(stream, index));
                }
            });
            Address::Unix(path)
        } else {
            let host =
                format!("127.{}.{}.{}", 1 + random.below(250), std::process::id() % 251, 1 + index);
            let port = if index.is_multiple_of(2) { 11211 } else { 0 };
            let listener = TcpListener::bind((host.as_str(), port)).expect("a free port");
            let port = listener.local_addr().expect("its address").port();
            thread::spawn(move || serve(listener, index));
            Address::Tcp(host, port)
        };
        servers.push(Server { address, weight, name });
    }
    servers
}

/// The configuration of the proxy: pools by socket, each with its settings.
struct Pools<'a> {
    directory: &'a Path,
    servers: &'a [Server],
    text: String,
    count: usize,
}

impl Pools<'_> {
    /// Adds a pool and says where it will listen.
    fn add(&mut self, settings: &str) -> PathBuf {
        let socket = self.directory.join(format!("pool{}.sock", self.count));
        let _ = std::fs::remove_file(&socket);
        let text = &mut self.text;
        writeln!(
            text,
            "pool{}:\n  listen: {} 0600\n{settings}  servers:",
            self.count,
            socket.display()
        )
        .expect("to a string");
        for server in self.servers {
            let address = match &server.address {
                Address::Tcp(host, port) => format!("{host}:{port}"),
                Address::Unix(path) => path.display().to_string(),
            };
            let name = server.name.as_deref().unwrap_or_default();
            writeln!(text, "    - {address}:{} {name}", server.weight).expect("to a string");
        }
        self.count += 1;
        socket
    }

    fn start(&self) -> Proxy {
        let file = self.directory.join("nutcracker.yml");
        std::fs::write(&file, &self.text).expect("a file");
        let statistics =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        let mut command = Command::new("/usr/sbin/nutcracker");
        command.arg("-c").arg(&file).args([
            "-a",
            "127.0.0.1",
            "-s",
            &statistics.port().to_string(),
        ]);
        command
            .arg("-o")
            .arg(self.directory.join("log"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child =
            command.spawn().expect("nutcracker; scripts/test-deps.sh installs what tests need");
        Proxy(child)
    }
}

fn connect(socket: &Path) -> UnixStream {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < deadline, "{}: {error}", socket.display()),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The backend of each key.
fn ask(socket: &Path, keys: &[Vec<u8>]) -> Vec<u32> {
    let stream = connect(socket);
    let mut writer = stream.try_clone().expect("a second handle");
    let mut reader = BufReader::new(stream);
    let mut owners = Vec::new();
    for some in keys.chunks(200) {
        let requests: Vec<u8> =
            some.iter().flat_map(|key| [b"get ", key.as_slice(), b"\r\n"].concat()).collect();
        writer.write_all(&requests).expect("it reads");
        for key in some {
            let mut reply = [Vec::new(), Vec::new(), Vec::new()];
            for line in &mut reply {
                reader.read_until(b'\n', line).expect("an answer");
            }
            let value = String::from_utf8_lossy(&reply[1]);
            let owner = value.trim_end().parse();
            owners.push(owner.unwrap_or_else(|_| {
                panic!("{:?}: {:?}", key.escape_ascii(), reply[0].escape_ascii())
            }));
        }
    }
    owners
}

#[test]
fn keys_are_placed_as_twemproxy_places_them() {
    let directory = directory("twemproxy");
    let servers = backends(&directory, &mut Random(1));
    let mut pools =
        Pools { directory: &directory, servers: &servers, text: String::new(), count: 0 };
    let mut asked = Vec::new();
    for (hash, name) in HASHES {
        for (distribution, called) in
            [(Distribution::KetamaTwemproxy, "ketama"), (Distribution::ModulaTwemproxy, "modula")]
        {
            let socket = pools.add(&format!("  hash: {name}\n  distribution: {called}\n"));
            asked.push((Placement::new(distribution, hash), socket));
        }
    }
    let tagged = Placement { hash_tag: Some(*b"{}"), ..asked[0].0 };
    asked.push((
        tagged,
        pools.add("  hash: one_at_a_time\n  distribution: ketama\n  hash_tag: \"{}\"\n"),
    ));
    let _proxy = pools.start();
    let mut keys = keys(10_000, 2);
    for (at, key) in keys.iter_mut().enumerate().step_by(7) {
        *key = [&b"a{{{}b"[at % 5..][..1 + at % 2], key, b"}c}"].concat();
    }
    for (placement, socket) in asked {
        agree(&placement, &servers, &keys, &ask(&socket, &keys));
    }
}
