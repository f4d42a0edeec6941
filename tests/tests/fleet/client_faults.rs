//! The client library when servers die, freeze, refuse and come back. What a failure costs is
//! asserted by counts of attempts, never by time.

#![allow(clippy::unwrap_used)]

use larder_client::{
    Client, Config, Distribution, Eject, Error, Failure, Health, Placement, Server, ServerView,
    State, Store, Timeouts, hash::Hash,
};
use larder_tests::client::{config, patient, run, server, signal, until, value};
use larder_tests::{Memcached, helper::free_port};
use rustix::process::Signal;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Patient, as a dead server's connections say so at once, and no probe for an hour.
fn unforgiving(servers: &[&Memcached]) -> Config {
    let mut config = config(servers);
    config.failure.retry_min = 3600 * 1000 * MS;
    config.failure.retry_max = 3600 * 1000 * MS;
    config.placement = Placement::new(Distribution::Ketama, Hash::Md5);
    config
}

fn view(client: &Client, at: usize) -> ServerView {
    client.servers().swap_remove(at)
}

/// So many keys of each server.
fn keys_of(client: &Client, at: usize, count: usize) -> Vec<String> {
    (0..)
        .map(|n| format!("key-{n}"))
        .filter(|key| client.locate(key.as_bytes()) == at)
        .take(count)
        .collect()
}

async fn put(client: &Client, key: &str) -> Result<(), Error> {
    client.set(key.as_bytes(), key.to_owned().into(), Store::default()).await.map(|_| ())
}

#[test]
fn a_server_that_refuses_costs_one_attempt_and_the_others_nothing() {
    let good = Memcached::debian(&[]);
    run(async {
        let mut config = unforgiving(&[&good]);
        config.servers.push(Server::tcp("127.0.0.1", free_port()));
        let client = Client::new(config).unwrap();
        let (fine, gone) = (keys_of(&client, 0, 100), keys_of(&client, 1, 100));
        for (fine, gone) in fine.iter().zip(&gone) {
            put(&client, fine).await.unwrap();
            assert!(put(&client, gone).await.is_err());
            assert_eq!(value(&client, fine).await.as_ref(), Some(fine));
        }
        let view = view(&client, 1);
        assert_eq!((view.connects, view.probes, view.ejections), (1, 0, 1));
        assert_eq!((view.state, view.skipped, view.errors), (State::Down, 99, 1));
        // A multi-get has an answer for each key, whatever the others' servers do.
        let mixed: Vec<&[u8]> =
            fine.iter().zip(&gone).flat_map(|(a, b)| [a.as_bytes(), b.as_bytes()]).collect();
        for (n, answer) in client.get_many(&mixed).await.into_iter().enumerate() {
            match n % 2 {
                0 => assert_eq!(answer.unwrap().unwrap().value, mixed[n]),
                _ => assert_eq!(answer, Err(Error::Down)),
            }
        }
        assert_eq!(self::view(&client, 1).connects, 1);
    });
}

#[test]
fn a_frozen_server_costs_one_timeout_and_comes_back_by_one_probe() {
    let server = Memcached::debian(&[]);
    run(async {
        let mut config = unforgiving(&[&server]);
        // Long for a server that runs.
        let limit = 1000 * MS;
        config.timeouts = Timeouts { connect: limit, read: limit, write: limit };
        config.failure.retry_min = MS;
        config.failure.retry_max = 4 * MS;
        let client = Client::new(config).unwrap();
        put(&client, "k").await.unwrap();
        signal(server.pid(), Signal::STOP);
        // Everyone who is under way shares the one timeout.
        let asked: Vec<_> = (0..100)
            .map(|n| {
                let client = client.clone();
                tokio::spawn(async move { client.get(format!("key-{n}").as_bytes()).await })
            })
            .collect();
        for answer in asked {
            assert_eq!(answer.await.unwrap(), Err(Error::Timeout));
        }
        let after = view(&client, 0);
        assert_eq!((after.timeouts, after.ejections, after.connects), (1, 1, 1));
        // While it is frozen nobody waits, and probes find it frozen: the kernel takes connections
        // for it.
        until("two probes", || {
            let asking = client.clone();
            tokio::spawn(async move { asking.get(b"k").await });
            view(&client, 0).probes >= 2
        })
        .await;
        assert_eq!(view(&client, 0).connects, 1, "only probes connected");
        signal(server.pid(), Signal::CONT);
        until("the server to be up", || {
            let asking = client.clone();
            tokio::spawn(async move { asking.get(b"k").await });
            view(&client, 0).state == State::Up
        })
        .await;
        assert_eq!(value(&client, "k").await.as_deref(), Some("k"));
        let back = view(&client, 0);
        assert_eq!((back.timeouts, back.ejections, back.connects), (1, 1, 2));
    });
}

#[test]
fn of_many_clients_one_pays_and_one_probes() {
    run(async {
        let port = free_port();
        let health = Health::new();
        let mut config = patient(vec![Server::tcp("127.0.0.1", port)]);
        config.failure = Failure { retry_min: 5 * MS, retry_max: 5 * MS, ..Failure::default() };
        let clients: Vec<_> =
            (0..8).map(|_| Client::sharing_health(config.clone(), &health).unwrap()).collect();
        assert!(clients[0].get(b"k").await.is_err());
        for client in &clients {
            assert!(client.get(b"k").await.is_err());
        }
        let connects: u64 = clients.iter().map(|client| view(client, 0).connects).sum();
        assert_eq!(connects, 1, "the others learned of it");
        // All at once, when the pause is over: one probe.
        tokio::time::sleep(6 * MS).await;
        let before = view(&clients[0], 0).probes;
        for client in &clients {
            // The probe's task cannot run in between: nothing here waits.
            let one = client.get(b"k");
            assert_eq!(one.await, Err(Error::Down));
        }
        assert!(view(&clients[0], 0).probes <= before + 1);
        // And it comes back for all.
        let server = Memcached::debian_at(port);
        until("all to find it", || {
            let asking = clients[7].clone();
            tokio::spawn(async move { asking.get(b"k").await });
            view(&clients[0], 0).state == State::Up
        })
        .await;
        for client in &clients {
            assert_eq!(client.get(b"k").await, Ok(None));
        }
        drop(server);
    });
}

#[test]
fn killed_under_load_no_answer_is_anothers() {
    let servers = [Memcached::debian(&[]), Memcached::debian(&[]), Memcached::debian(&[])];
    run(async {
        let mut config = unforgiving(&servers.each_ref());
        config.failure.eject = Eject::Rehash;
        let client = Client::new(config).unwrap();
        let tasks: Vec<_> = (0..50)
            .map(|task| {
                let client = client.clone();
                tokio::spawn(async move {
                    let mut failed = 0;
                    for n in 0..200 {
                        let key = format!("key-{task}-{n}");
                        failed += u32::from(put(&client, &key).await.is_err());
                        match client.get(key.as_bytes()).await {
                            Ok(Some(item)) => assert_eq!(item.value, key),
                            Ok(None) => {}
                            Err(_) => failed += 1,
                        }
                    }
                    failed
                })
            })
            .collect();
        signal(servers[1].pid(), Signal::KILL);
        let mut failed = 0;
        for task in tasks {
            failed += task.await.unwrap();
        }
        // Each task has at most one operation under way when the connection breaks, and one that
        // had chosen it before.
        assert!(failed <= 100, "{failed} operations failed");
        let view = view(&client, 1);
        assert!(view.connects <= 2 && view.ejections == 1, "{view:?}");
        assert_eq!(view.state, State::Ejected);
    });
}

#[test]
fn rehashing_moves_the_keys_of_the_dead_alone() {
    let servers = [Memcached::debian(&[]), Memcached::debian(&[]), Memcached::debian(&[])];
    run(async {
        let mut config = unforgiving(&servers.each_ref());
        config.failure.eject = Eject::Rehash;
        let client = Client::new(config).unwrap();
        let keys: Vec<String> = (0..300).map(|n| format!("key-{n}")).collect();
        for key in &keys {
            put(&client, key).await.unwrap();
        }
        signal(servers[0].pid(), Signal::KILL);
        // The first to ask learns of it.
        until("the server to be out", || {
            let asking = client.clone();
            let key = keys_of(&client, 0, 1).remove(0);
            tokio::spawn(async move { asking.get(key.as_bytes()).await });
            view(&client, 0).state == State::Ejected
        })
        .await;
        for key in &keys {
            let found = value(&client, key).await;
            assert_eq!(found.is_some(), client.locate(key.as_bytes()) != 0, "{key}");
        }
        for key in &keys {
            put(&client, key).await.unwrap();
            assert_eq!(value(&client, key).await.as_ref(), Some(key));
        }
    });
}

#[test]
fn a_spare_serves_the_keys_of_the_dead() {
    let servers = [Memcached::debian(&[]), Memcached::debian(&[])];
    let spare = Memcached::debian(&[]);
    run(async {
        let mut config = unforgiving(&servers.each_ref());
        config.spares = vec![server(spare.addr())];
        let client = Client::new(config).unwrap();
        let keys = keys_of(&client, 0, 20);
        put(&client, &keys[0]).await.unwrap();
        signal(servers[0].pid(), Signal::KILL);
        until("the spare to serve", || {
            let (asking, key) = (client.clone(), keys[0].clone());
            tokio::spawn(async move { asking.get(key.as_bytes()).await });
            view(&client, 0).state == State::Ejected
        })
        .await;
        for key in &keys {
            put(&client, key).await.unwrap();
        }
        assert_eq!(spare.connect().stat("curr_items"), "20");
        assert!(view(&client, 2).spare && view(&client, 2).writes == 20);
    });
}

#[test]
fn replicas_are_written_everywhere_and_read_from_the_first_that_answers() {
    let servers = [Memcached::debian(&[]), Memcached::debian(&[]), Memcached::debian(&[])];
    run(async {
        let client =
            Client::new(Config { replicas: 2, ..unforgiving(&servers.each_ref()) }).unwrap();
        let keys: Vec<String> = (0..60).map(|n| format!("key-{n}")).collect();
        for key in &keys {
            put(&client, key).await.unwrap();
        }
        let items = |at: usize| servers[at].connect().stat("curr_items").parse::<usize>().unwrap();
        assert_eq!(items(0) + items(1) + items(2), 120);
        signal(servers[0].pid(), Signal::KILL);
        let asked: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        for (key, answer) in keys.iter().zip(client.get_many(&asked).await) {
            assert_eq!(answer.unwrap().unwrap().value, *key);
        }
        for key in &keys {
            assert_eq!(value(&client, key).await.as_ref(), Some(key));
        }
        // What depends on what is there is done once; the copy goes, so that it cannot be old.
        client.set(b"n", "1".into(), Store::default()).await.unwrap();
        assert_eq!(client.incr(b"n", 1).await, Ok(Some(2)));
        assert_eq!(client.delete(b"n").await, Ok(true));
        assert_eq!(client.get(b"n").await, Ok(None));
    });
}

#[test]
fn dropped_futures_do_not_shift_answers() {
    let server = Memcached::debian(&[]);
    run(async {
        let client = Client::new(config(&[&server])).unwrap();
        for n in 0..100 {
            put(&client, &format!("key-{n}")).await.unwrap();
        }
        let tasks: Vec<_> = (0..64_u64)
            .map(|task| {
                let client = client.clone();
                tokio::spawn(async move {
                    let mut random = task.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                    let mut dropped = 0;
                    for _ in 0..200 {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let key = format!("key-{}", random % 120);
                        let many = [key.as_bytes(), b"none", b"key-7"];
                        let asked = async {
                            if random % 3 == 0 {
                                let all = client.get_many(&many).await;
                                assert_eq!(all[1], Ok(None));
                                assert_eq!(
                                    all[2].as_ref().unwrap().as_ref().unwrap().value,
                                    "key-7"
                                );
                                all.into_iter().next().unwrap()
                            } else {
                                client.get(key.as_bytes()).await
                            }
                        };
                        // Given up after so many turns of the others, which is before, while or
                        // after it is answered.
                        let turns = random / 128 % 6;
                        let waits = async {
                            for _ in 0..turns {
                                tokio::task::yield_now().await;
                            }
                            if turns > 3 {
                                std::future::pending::<()>().await;
                            }
                        };
                        tokio::select! {
                            biased;
                            answer = asked => {
                                let value = answer.unwrap().map(|item| item.value);
                                let there = random % 120 < 100;
                                assert_eq!(value, there.then(|| key.clone().into()));
                            }
                            () = waits => dropped += 1,
                        }
                    }
                    dropped
                })
            })
            .collect();
        let mut dropped = 0;
        for task in tasks {
            dropped += task.await.unwrap();
        }
        assert!(dropped > 1000, "only {dropped} futures were dropped");
        let view = view(&client, 0);
        assert_eq!((view.connects, view.errors, view.timeouts), (1, 0, 0));
    });
}
