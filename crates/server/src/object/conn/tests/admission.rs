//! Letting clients in, up to a face's limit.

use std::{cell::RefCell, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::{spawn_local, yield_now},
};

use super::*;
use crate::{
    net::{
        accept::Acceptor,
        inherited::Inherited,
        listen::{self, Listener, Manner},
    },
    object::{
        Clients,
        face::{Event, Face, FaceAcceptor, Shared},
    },
    settings::Listen,
};

/// A face that counts the events of its acceptor.
struct EchoFace {
    clients: Clients,
    limits: Cell<Limits>,
    events: RefCell<Vec<Event>>,
}

impl Shared for EchoFace {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn limits(&self) -> Limits {
        self.limits.get()
    }

    fn announces(&self, _address: std::net::IpAddr) -> bool {
        false
    }

    fn refusal(&self) -> &'static [u8] {
        b"full\n"
    }
}

impl Face for EchoFace {
    type Session = Echo;
    type Shared = Self;

    fn shared(&self) -> &Self {
        self
    }

    fn session(self: &Rc<Self>, client: Arc<Client>) -> Echo {
        Echo::new(client, Rc::default())
    }

    fn count(&self, event: Event) {
        // When is another matter.
        self.events.borrow_mut().push(match event {
            Event::Paused(_) => Event::Paused(0),
            Event::Resumed(_) => Event::Resumed(0),
            other => other,
        });
    }
}

/// A face with an acceptor that lets one in.
fn one_place(fast: bool) -> (Rc<EchoFace>, Rc<FaceAcceptor<EchoFace>>, SocketAddr) {
    let limits = Limits { connections: 1, connections_fast: fast, ..LIMITS };
    let face = Rc::new(EchoFace {
        clients: Clients::default(),
        limits: Cell::new(limits),
        events: RefCell::default(),
    });
    let any = [Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))];
    let mut bound = listen::bind(
        &any,
        1,
        Manner { sndbuf: 0, backlog: 8, shared: false },
        &mut Inherited::default(),
    )
    .expect("bound");
    let Some(listener @ Listener::Tcp(_)) = bound.workers[0].pop() else { panic!("a listener") };
    let address = listener.name().expect("a name").parse().expect("an address");
    let conns = conns();
    let acceptor = Acceptor::open(listener, &conns.reactor).expect("a acceptor");
    let face_acceptor = FaceAcceptor::new(face.clone(), conns);
    spawn_local(face_acceptor.clone().accept(acceptor, false, Rc::default()));
    (face, face_acceptor, address)
}

async fn hello(stream: &mut TcpStream) {
    stream.write_all(b"hello\n").await.expect("send");
    let mut got = [0; 6];
    stream.read_exact(&mut got).await.expect("an answer");
    assert_eq!(&got, b"hello\n");
}

#[test]
fn one_too_many_is_told_so() {
    run(|| async {
        let (face, _doors, address) = one_place(true);
        let mut first = TcpStream::connect(address).await.expect("connect");
        hello(&mut first).await;
        let mut second = TcpStream::connect(address).await.expect("connect");
        let mut told = Vec::new();
        second.read_to_end(&mut told).await.expect("an end");
        assert_eq!(told, b"full\n");
        assert_eq!(*face.events.borrow(), [Event::Accepted, Event::Refused]);
        hello(&mut first).await;
    });
}

#[test]
fn one_too_many_waits_for_a_place() {
    run(|| async {
        let (face, _doors, address) = one_place(false);
        let mut first = TcpStream::connect(address).await.expect("connect");
        hello(&mut first).await;
        let mut second = TcpStream::connect(address).await.expect("connect");
        while face.events.borrow().len() < 2 {
            yield_now().await;
        }
        assert_eq!(face.clients.open(), 1);
        drop(first);
        hello(&mut second).await;
        let waited = [Event::Paused(0), Event::Ended(End::Closed), Event::Resumed(0)];
        let events = [&[Event::Accepted], &waited[..], &[Event::Accepted]].concat();
        assert_eq!(*face.events.borrow(), events);
    });
}

#[test]
fn a_raised_limit_lets_in_who_waits() {
    run(|| async {
        let (face, acceptor, address) = one_place(false);
        let mut first = TcpStream::connect(address).await.expect("connect");
        hello(&mut first).await;
        let mut second = TcpStream::connect(address).await.expect("connect");
        while face.events.borrow().len() < 2 {
            yield_now().await;
        }
        face.limits.set(Limits { connections: 2, ..face.limits.get() });
        acceptor.reload(None);
        hello(&mut second).await;
        hello(&mut first).await;
        assert_eq!(*face.clients.list()[1].local, address.to_string());
    });
}
