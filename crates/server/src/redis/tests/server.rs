//! INFO, CONFIG, SLOWLOG, COMMAND and related commands.

use crate::settings::RedisSettings;

use super::{super::Face, TestClient, face, settings, shared};

fn figure(info: &str, name: &str) -> u64 {
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("{name} in {info}")).trim().parse().unwrap()
}

#[test]
fn info_counts_and_resets() {
    let mut client = TestClient::new(&face());
    client.say("set k v\nget k\nget k\nget absent\nincr k\nnosuch\nget");
    let info = client.say("info everything");
    assert_eq!(figure(&info, "keyspace_hits"), 2);
    assert_eq!(figure(&info, "keyspace_misses"), 1);
    assert_eq!(figure(&info, "total_error_replies"), 3);
    assert!(info.contains("cmdstat_get:calls=3,"), "{info}");
    assert!(
        info.contains("cmdstat_incr:calls=1,") && info.contains("rejected_calls=0,failed_calls=1"),
        "{info}"
    );
    assert!(info.contains("errorstat_ERR:count=3\r\n"));
    assert!(info.contains("db0:keys=1,"));
    assert_eq!(client.say("config resetstat"), "+OK\r\n");
    let info = client.say("info everything");
    assert_eq!((figure(&info, "keyspace_hits"), figure(&info, "total_error_replies")), (0, 0));
    assert!(!info.contains("cmdstat_get"), "{info}");
}

#[test]
fn info_tells_the_sections_asked_for() {
    let mut client = TestClient::new(&face());
    let info = client.say("info clients keyspace");
    assert!(
        info.contains("# Clients\r\nconnected_clients:1\r\n")
            && info.contains("\r\n\r\n# Keyspace\r\n")
    );
    assert!(!info.contains("# Server"));
    let usual = client.say("info");
    assert!(usual.contains("# Stats") && !usual.contains("# Commandstats"));
    assert!(client.say("info all").contains("# Commandstats"));
    assert_eq!(client.say("info nosuch"), "$0\r\n\r\n");
}

#[test]
fn config_set_is_all_or_nothing() {
    let mut client = TestClient::new(&face());
    assert_eq!(client.say("config set maxclients 50 timeout 7"), "+OK\r\n");
    assert_eq!(client.say("config get maxclients"), "*2\r\n$10\r\nmaxclients\r\n$2\r\n50\r\n");
    assert_eq!(
        client.say("config set maxclients 60 databases 3"),
        "-ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable \
         config\r\n"
    );
    assert_eq!(
        client.say("config get maxclients"),
        "*2\r\n$10\r\nmaxclients\r\n$2\r\n50\r\n",
        "set back"
    );
    assert_eq!(client.say("config set save ''"), "+OK\r\n", "what it is already");
    assert_eq!(
        client.say("config get MaxClients timeout*"),
        "*4\r\n$10\r\nMaxClients\r\n$2\r\n50\r\n$7\r\ntimeout\r\n$1\r\n7\r\n"
    );
}

#[test]
fn slow_commands_are_kept_newest_first_and_shortened() {
    let mut client = TestClient::new(&face());
    client.say("config set slowlog-log-slower-than 0 slowlog-max-len 4");
    let long = "x".repeat(200);
    client.say(&format!("client setname me\nset k {long}\nget k\nget k2"));
    assert_eq!(client.say("slowlog len"), ":4\r\n");
    let log = client.say("slowlog get 10");
    assert!(!log.contains("setname"), "only the last four: {log}");
    assert!(log.contains("... (72 more bytes)"), "{log}");
    assert!(log.find("slowlog").unwrap() < log.find("k2").unwrap(), "newest first: {log}");
    assert!(log.contains("$14\r\n127.0.0.1:4711\r\n$2\r\nme\r\n"), "{log}");
    client.say("config set slowlog-log-slower-than -1\nslowlog reset\nget k");
    assert_eq!(client.say("slowlog len"), ":0\r\n");
}

#[test]
fn passwords_do_not_show_in_the_slow_log() {
    let mut client = TestClient::new(&face());
    client.say(
        "config set slowlog-log-slower-than 0\nauth default hidden\nconfig set requirepass hidden",
    );
    assert!(!client.say("slowlog get 10").contains("hidden"));
}

#[test]
fn command_shows_the_table() {
    let mut client = TestClient::new(&face());
    let count: usize = client.say("command count").trim()[1..].parse().unwrap();
    assert!(client.say("command").starts_with(&format!("*{count}\r\n")));
    assert!(client.say("command info get").starts_with("*1\r\n*10\r\n$3\r\nget\r\n:2\r\n"));
    assert_eq!(client.say("command getkeys mset a 1 b 2"), "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    assert_eq!(client.say("command getkeys ping x"), "-ERR The command has no key arguments\r\n");
}

#[test]
fn every_command_of_the_table_has_a_function() {
    use crate::redis::conn::handler;
    use larder_proto::resp::table;
    let all = table::all().flat_map(|c| {
        if c.subcommands.is_empty() { std::slice::from_ref(c) } else { c.subcommands }
    });
    let without: Vec<_> =
        all.filter(|command| handler(command.id).is_none()).map(|command| command.name).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn unsupported_commands_answer_so() {
    let mut client = TestClient::new(&face());
    for (line, part) in [
        ("bgsave", "in memory only"),
        ("debug jmap", "ERROR and SLEEP only"),
        ("replicaof no one", "replicate"),
        ("cluster info", "cluster support disabled"),
    ] {
        let answer = client.say(line);
        assert!(answer.starts_with("-ERR ") && answer.contains(part), "{line}: {answer}");
    }
    assert_eq!(client.say("module list"), "*0\r\n");
    assert_eq!(client.say("quit"), "+OK\r\n");
    assert!(client.closed);
}

#[test]
fn scripts_of_locks_run() {
    let mut client = TestClient::new(&face());
    let add = "eval \"return redis.call('exists',KEYS[1])<1 and \
               redis.call('setex',KEYS[1],ARGV[2],ARGV[1])\" 1 k";
    assert_eq!(client.say(&format!("{add} mine 100")), "+OK\r\n");
    assert_eq!(client.say(&format!("{add} other 200")), "$-1\r\n");
    assert_eq!(client.say("get k"), "$4\r\nmine\r\n");
    assert_eq!(client.say("ttl k"), ":100\r\n");
    // Libraries then send the text.
    let unknown = "evalsha 0000000000000000000000000000000000000000 0";
    assert_eq!(client.say(unknown), "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    assert_eq!(client.say("multi"), "+OK\r\n");
    assert_eq!(client.say("eval 'return redis.call(ARGV[1], KEYS[1])' 1 k get"), "+QUEUED\r\n");
    assert_eq!(client.say("exec"), "*1\r\n$4\r\nmine\r\n");
}

#[test]
fn key_flags_follow_the_arguments() {
    let mut client = TestClient::new(&face());
    for (command, flags) in [
        ("set a b", "+OW +update"),
        ("set get get", "+OW +update"),
        ("set a b ex 10 get", "+RW +access +update"),
        ("bitfield a get u8 0 overflow wrap", "+RO +access"),
        ("bitfield a get u8 0 set u8 0 1", "+RW +access +update"),
        ("bitfield a get", "+RW +access +update"),
    ] {
        let answer = client.say(&format!("command getkeysandflags {command}"));
        let shown: Vec<&str> = answer.split("\r\n").filter(|line| line.starts_with('+')).collect();
        assert_eq!(shown.join(" "), flags, "{command}");
    }
}

#[test]
fn subcommands_that_take_little_say_so() {
    let mut client = TestClient::new(&face());
    for (line, name) in [("pubsub channels a b", "PUBSUB"), ("slowlog get 1 2", "SLOWLOG")] {
        let error = format!(
            "-ERR unknown subcommand or wrong number of arguments for '{}'. Try {name} HELP.\r\n",
            line.split(' ').nth(1).unwrap()
        );
        assert_eq!(client.say(line), error);
    }
}

#[test]
fn object_freq_is_known_where_it_decides_evictions() {
    let mut client = TestClient::new(&face());
    client.say("set k v");
    assert_eq!(client.say("object freq k"), ":0\r\n");
    for _ in 0..100 {
        client.say("get k");
    }
    let times = client.say("object freq k");
    assert!([":1\r\n", ":2\r\n", ":3\r\n"].contains(&&*times), "{times}");
    assert_eq!(client.say("object freq nothing"), "$-1\r\n");
    let settings = RedisSettings { no_evictions: true, ..settings() };
    let mut other = TestClient::new(&Face::new(&shared(settings), 0));
    other.say("set k v");
    assert!(other.say("object freq k").starts_with("-ERR An LFU maxmemory policy is not selected"));
}

#[test]
fn client_commands_do_not_consume_client_caching() {
    let mut client = TestClient::new(&face()).resp3();
    client.say("client tracking on optin\nclient caching yes");
    assert!(client.say("client trackinginfo").contains("caching-yes"));
    assert!(client.say("client trackinginfo").contains("caching-yes"));
    client.say("get a");
    assert!(!client.say("client trackinginfo").contains("caching-yes"));
}

#[test]
fn watch_is_refused_in_a_transaction() {
    let face = face();
    let (mut me, mut other) = (TestClient::new(&face), TestClient::new(&face));
    me.say("multi\nmonitor");
    assert_eq!(me.say("exec"), "*1\r\n-ERR MONITOR isn't allowed for DENY BLOCKING client\r\n");
    other.say("set a 1");
    assert_eq!(me.mail(), "");
}
