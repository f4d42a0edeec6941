//! Clients that read nothing, send nothing, or are killed.

use super::*;

#[test]
fn a_slow_reader_costs_a_bounded_buffer() {
    run(|| async {
        for streams in [tcp(), unix()] {
            let mut pair = pair(streams, LIMITS);
            let parts = 16 * 1024;
            pair.send(format!("long {parts}\nafter\n").as_bytes()).await;
            let mut got = vec![0; parts * PART];
            (&pair.far).read_exact(&mut got).await.expect("the long answer");
            assert!(got.iter().all(|&byte| byte == b'x'));
            pair.expect(b"after\n").await;
            let most = pair.seen.most_pending.get();
            assert!(most <= HIGH_WATER + PART as u64, "{most} bytes waited");
        }
    });
}

#[test]
fn a_client_that_reads_nothing_is_given_up() {
    run(|| async {
        let mut pair = pair(tcp(), Limits { send: 1000, ..LIMITS });
        pair.send(b"long 100000\n").await;
        // Its deadline is set once the system takes no more.
        let late = pair.conns.clock.now() + 3_600_000;
        while !pair.served.is_finished() {
            pair.watch.sweep(late);
            yield_now().await;
        }
        assert_eq!(pair.end().await, End::Stalled);
    });
}

#[test]
fn a_client_may_send_before_it_reads_where_it_is_let() {
    const LINES: usize = 500_000;
    let line = [&[b'x'; 99][..], b"\n"].concat();
    run(|| async {
        for streams in [tcp(), unix()] {
            let mut pair = pair(streams, Limits { gather: 64 << 20, ..LIMITS });
            // More than the buffers of the system hold in both directions (tcp_rmem may be 32 MiB).
            pair.send(&line.repeat(LINES)).await;
            let mut got = vec![0; LINES * line.len()];
            (&pair.far).read_exact(&mut got).await.expect("all answers");
            assert!(got.chunks(line.len()).all(|chunk| chunk == line));
            assert!(pair.seen.gathered.get() > 0);
            pair.until(|pair| pair.client.held() == 0).await;
            let received =
                pair.seen.batches.borrow().iter().map(|batch| batch.received).sum::<u64>();
            assert_eq!(received, got.len() as u64);
        }
    });
}

#[test]
fn a_client_that_sends_and_never_reads_is_given_up() {
    for gather in [0, 1 << 20] {
        run(|| async {
            let pair = pair(tcp(), Limits { gather, send: 1000, ..LIMITS });
            let line = [&[b'x'; 99][..], b"\n"].concat().repeat(1000);
            let late = pair.conns.clock.now() + 3_600_000;
            while !pair.served.is_finished() {
                let full = pair
                    .far
                    .try_write(&line)
                    .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
                yield_now().await;
                let (most, waits) = (pair.client.held(), pair.seen.most_pending.get());
                // Buffers that grow are up to twice what is in them.
                assert!(most <= 4 * (gather + HIGH_WATER), "{most} bytes gathered");
                assert!(waits <= gather + 2 * HIGH_WATER, "{waits} bytes of answers");
                if full {
                    pair.watch.sweep(late);
                }
            }
            assert_eq!(pair.end().await, End::Stalled);
        });
    }
}

#[test]
fn a_command_that_does_not_get_on_is_given_up_though_idle_clients_may_stay() {
    run(|| async {
        let mut idle = pair(tcp(), LIMITS);
        idle.send(b"line\n").await;
        idle.expect(b"line\n").await;
        let mut pair = pair(tcp(), LIMITS);
        pair.send(b"line\nhalf").await;
        pair.expect(b"line\n").await;
        pair.until(|pair| pair.client.held() > 0).await;
        let begun = pair.conns.clock.now();
        pair.watch.sweep(begun + LIMITS.receive / 2);
        // A byte more is no progress, a whole command is.
        pair.send(b"x").await;
        pair.until(|pair| pair.seen.turns.get() > 2).await;
        pair.watch.sweep(begun + LIMITS.receive / 2);
        pair.send(b"\n").await;
        pair.expect(b"halfx\n").await;
        pair.until(|pair| pair.client.held() == 0).await;
        pair.watch.sweep(begun + 10 * LIMITS.receive);
        pair.send(b"half").await;
        pair.until(|pair| pair.client.held() > 0).await;
        pair.watch.sweep(pair.conns.clock.now() + LIMITS.receive);
        assert_eq!(pair.end().await, End::Late);
        idle.watch.sweep(begun + 10 * LIMITS.receive);
        idle.send(b"line\n").await;
        idle.expect(b"line\n").await;
    });
}

#[test]
fn a_silent_client_is_closed_where_there_is_a_limit() {
    run(|| async {
        let late = Clock::start().now() + 3_600_000;
        let mut never = pair(tcp(), LIMITS);
        never.send(b"one\n").await;
        never.expect(b"one\n").await;
        never.watch.sweep(late);
        never.send(b"two\n").await;
        never.expect(b"two\n").await;

        let mut pair = pair(tcp(), Limits { idle: 1000, ..LIMITS });
        pair.client.set_stays(true);
        pair.send(b"one\n").await;
        pair.expect(b"one\n").await;
        pair.watch.sweep(late);
        pair.client.set_stays(false);
        pair.send(b"two\n").await;
        pair.expect(b"two\n").await;
        pair.until(|pair| pair.seen.batches.borrow().len() == 2).await;
        yield_now().await;
        pair.watch.sweep(pair.conns.clock.now());
        pair.watch.sweep(late);
        assert_eq!(pair.rest().await, b"");
        assert_eq!(pair.end().await, End::Idle);
    });
}

#[test]
fn a_killed_client_is_closed_idle_or_stalled() {
    run(|| async {
        for streams in [tcp(), unix()] {
            let mut idle = pair(streams, LIMITS);
            idle.send(b"one\n").await;
            idle.expect(b"one\n").await;
            let client = idle.client.clone();
            std::thread::spawn(move || client.kill()).join().expect("killed");
            assert_eq!(idle.rest().await, b"");
            assert_eq!(idle.end().await, End::Closed);
        }
        let mut stalled = pair(tcp(), LIMITS);
        stalled.send(b"long 100000\n").await;
        stalled.until(|pair| pair.seen.turns.get() > 1).await;
        stalled.client.kill();
        assert_eq!(stalled.end().await, End::Closed);
    });
}

#[test]
fn a_client_whose_bytes_wait_in_a_crowded_round_is_not_idle() {
    // A look at the sockets reports 64, and a turn answers some 26 such lines. So after 110 answers
    // all are reported, and most wait for their turn.
    const CLIENTS: usize = 256;
    const ANSWERED: usize = 110;
    let line = [&[b'x'; 20_000][..], b"\n"].concat();
    run(|| async {
        let conns = conns();
        let limits = Limits { idle: 1000, ..LIMITS };
        let mut pairs: Vec<_> = (0..CLIENTS).map(|_| pair_on(&conns, unix(), limits)).collect();
        for pair in &mut pairs {
            pair.send(&line).await;
        }
        let answered =
            |pairs: &[Pair]| pairs.iter().filter(|pair| pair.seen.turns.get() > 0).count();
        while answered(&pairs) < ANSWERED {
            yield_now().await;
        }
        assert!(answered(&pairs) < CLIENTS, "none waits");
        let late = conns.clock.now() + 3_600_000;
        let mut waiting: Vec<_> =
            pairs.into_iter().filter(|pair| pair.seen.turns.get() == 0).collect();
        waiting.iter().for_each(|pair| pair.watch.sweep(late));
        for pair in &mut waiting {
            pair.expect(&line).await;
            pair.send(b"again\n").await;
            pair.expect(b"again\n").await;
        }
    });
}
