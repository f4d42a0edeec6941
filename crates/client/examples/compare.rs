//! The workload of benches/libmemcached.c with this client: `compare WORKLOAD COUNT HOST:PORT...`
//!
//! Prints microseconds of CPU time of this process for each operation, and the 99th percentile of
//! the time of each call.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use larder_client::{Client, Config, Server, Store};
use std::time::{Duration, Instant};

const KEYS: usize = 1000;

/// User and system time of this process, from `/proc/self/stat` in ticks of 10 ms: exact enough
/// over a second.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1;
    let ticks: u64 = fields
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 10)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let (workload, count) = (args.next().unwrap(), args.next().unwrap().parse::<usize>().unwrap());
    let servers: Vec<Server> = args.map(|server| Server::parse(&server).unwrap()).collect();
    let client = Client::new(Config::new(servers)).unwrap();
    let keys: Vec<String> = (0..KEYS).map(|n| format!("bench-key-{n}")).collect();
    let value = Bytes::from_static(&[b'v'; 100]);
    for key in &keys {
        client.set(key.as_bytes(), value.clone(), Store::default()).await.unwrap();
    }
    let mut times = Vec::with_capacity(count);
    let (mut operations, began) = (0, cpu());
    for n in 0..count {
        let begin = Instant::now();
        let key = keys[n % KEYS].as_bytes();
        operations += 1;
        match workload.as_str() {
            "get" => assert_eq!(client.get(key).await.unwrap().unwrap().value.len(), 100),
            "multi" => {
                let from = n * 100 % KEYS;
                let wanted: Vec<&[u8]> =
                    keys[from..from + 100].iter().map(String::as_bytes).collect();
                let found = client.get_many(&wanted).await;
                assert!(found.iter().all(|one| matches!(one, Ok(Some(_)))));
                operations += 99;
            }
            "set" => {
                assert!(client.set(key, value.clone(), Store::default()).await.unwrap().is_stored())
            }
            "set_buffered" => {
                client.set_quietly(key, value.clone(), Store::default()).await.unwrap()
            }
            other => panic!("no workload {other}"),
        }
        times.push(begin.elapsed());
    }
    client.settle().await;
    let cost = (cpu() - began).as_secs_f64() * 1e6 / operations as f64;
    times.sort();
    println!("larder {workload} {cost:.2} {}", times[count * 99 / 100].as_micros());
}
