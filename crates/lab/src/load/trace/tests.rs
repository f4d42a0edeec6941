//! Traces from small files: formats, damage, threads, times, repetition.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use super::*;
use crate::load::{Load, Mix, Operation, Sizes, Verb};

/// A file that is removed at the end of the test.
struct File(PathBuf);

impl File {
    fn new(bytes: &[u8]) -> File {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("larder-trace-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).unwrap();
        File(path)
    }

    fn trace(&self) -> Trace {
        Trace::open(&self.0, None).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn ask_all(load: &Load, thread: usize, threads: usize, most: usize) -> Vec<Operation> {
    let (mut source, mut operation, mut all) =
        (load.source(thread, threads, 1), Operation::default(), Vec::new());
    while all.len() < most && source.next(&mut operation) {
        all.push(operation.clone());
    }
    all
}

/// `verb key size ttl @milliseconds` of each.
fn shown(load: &Load) -> Vec<String> {
    let show = |operation: &Operation| {
        let at = operation.at.map_or("-".to_owned(), |at| at.as_millis().to_string());
        format!(
            "{} {} {} {} @{at}",
            operation.verb.name(),
            String::from_utf8_lossy(&operation.key),
            operation.size,
            operation.ttl
        )
    };
    ask_all(load, 0, 1, 1000).iter().map(show).collect()
}

const SQUID: &[u8] = b"\
971211336.007    180 127.0.0.1 TCP_MISS/200 2626 GET http://www.example.com/apache_pb.gif?a=b \
frank HIER_DIRECT/10.1.2.3 text/html
971211336.507      1 127.0.0.1 TCP_MEM_HIT/200 900 HEAD http://www.example.com/ - HIER_NONE/- \
text/html
971211336.307     90 127.0.0.1 TCP_TUNNEL/200 900 CONNECT www.example.com:443 - HIER_NONE/- -
971211336.407      0 2001:db8::1 NONE/000 0 GET error:invalid-request - HIER_NONE/- -
971211337.007      2 127.0.0.1 TCP_MISS/201 300 PUT http://www.example.com - HIER_DIRECT/10.1.2.3 -
";

#[test]
fn squids_access_log() {
    let file = File::new(SQUID);
    assert_eq!(file.trace().format, Format::Squid);
    let load = Load::recorded(file.trace());
    assert_eq!(
        shown(&load),
        [
            "get http://www.example.com/apache_pb.gif?a=b 2626 0 @0",
            "head http://www.example.com/ 900 0 @500",
            "set http://www.example.com 300 0 @1000",
        ]
    );
    let skipped = load.skipped().unwrap();
    assert_eq!((skipped.malformed(), skipped.passed_over()), (0, 2));
    let keys = shown(&Load::recorded(file.trace().targets(true)));
    assert_eq!(keys[0], "get /apache_pb.gif?a=b 2626 0 @0");
    assert_eq!(keys[2], "set / 300 0 @1000");
}

#[test]
fn common_and_combined_logs() {
    let file = File::new(
        b"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /apache_pb.gif?a=b HTTP/1.0\" 200 \
         2326 \"http://a/\" \"M [en] (W)\"\n\
          2001:db8::1 - - [10/Oct/2000:20:55:38 +0000] \"DELETE /quo\\\"te\\x41\\\\ HTTP/1.1\" 204 \
          -\n\
          127.0.0.1 - - [10/Oct/2000:20:55:38 +0000] \"POST /form HTTP/1.1\" 200 5\n\
          127.0.0.1 - - [10/Oct/2000:20:55:38 +0000] \"\\x16\\x03\" 400 5\n\
          127.0.0.1 - - [10/Oct/2000:20:55:38 +0000] \"GET /never ends 400 5\n",
    );
    assert_eq!(file.trace().format, Format::Common);
    let load = Load::recorded(file.trace());
    assert_eq!(shown(&load), ["get /apache_pb.gif?a=b 2326 0 @0", "delete /quo\"teA\\ 0 0 @2000"]);
    let skipped = load.skipped().unwrap();
    assert_eq!((skipped.malformed(), skipped.passed_over()), (1, 2));
    assert!(skipped.examples()[0].starts_with("line 5: expected"), "{skipped}");
}

#[test]
fn larders_json_log() {
    let file = File::new(
        br#"{"time":"2000-10-10T20:55:36.007Z","elapsed_us":180999,"client":"127.0.0.1","method":"GET","url":"http://www.example.com/a?b","http_version":"HTTP/1.0","status":200,"bytes":2626,"body_bytes":2326,"result":"TCP_MISS","peer":null}
{"time":"2000-10-10T20:55:36.107Z","method":"GET","url":"http://www.example.com/\"\u00e4","body_bytes":0}
{"time":"2000-10-10T20:55:36.107Z","method":"GET"}
"#,
    );
    assert_eq!(file.trace().format, Format::Json);
    let load = Load::recorded(file.trace().targets(true));
    assert_eq!(shown(&load), ["get /a?b 2326 0 @0", "get /\"\u{e4} 0 0 @100"]);
    assert_eq!(load.skipped().unwrap().malformed(), 1);
}

#[test]
fn twitters_cache_traces() {
    let file = File::new(
        b"0,q:q:1:8WTfjZU14ee,17,213,4,get,0\n0,yDqF:3q:1AJrrJ1nnCJKKrnGx1A,27,27,5,set,3600\n3,a,1,0,5,delete,0\n3,a,1,0,5,fly,0\n",
    );
    assert_eq!(file.trace().format, Format::Twitter);
    let load = Load::recorded(file.trace());
    assert_eq!(
        shown(&load),
        [
            "get q:q:1:8WTfjZU14ee 213 0 @0",
            "set yDqF:3q:1AJrrJ1nnCJKKrnGx1A 27 3600 @0",
            "delete a 0 0 @3000"
        ]
    );
    assert_eq!(
        load.skipped().unwrap().examples(),
        ["line 4: expected timestamp,key,key size,value size,client id,operation,TTL"]
    );
}

#[test]
fn msr_cambridges_block_traces() {
    let file = File::new(
        b"128166372003061629,hm,0,Read,383496192,32768,413\n128166372013061629,hm,1,Write,2822144,65536,1001\n",
    );
    assert_eq!(file.trace().format, Format::Msr);
    assert_eq!(
        shown(&Load::recorded(file.trace())),
        ["get hm.0.383496192 32768 0 @0", "set hm.1.2822144 65536 0 @1000"]
    );
}

#[test]
fn libcachesims_csv_with_and_without_names() {
    for heading in ["", "# time, object, size\n", "time,obj_id,obj_size\n"] {
        let file = File::new(format!("{heading}5,17,4096\n6.5,18,512\n").as_bytes());
        assert_eq!(file.trace().format, Format::Csv { time: 1, key: 2, size: 3 });
        let load = Load::recorded(file.trace());
        assert_eq!(shown(&load), ["get 17 4096 0 @0", "get 18 512 0 @1500"], "{heading}");
        assert_eq!(load.skipped().unwrap().malformed(), 0);
    }
    let file = File::new(b"a,4096,5\nb,512,6\n");
    let trace = Trace::open(&file.0, Some(Format::parse("csv:3,1,2").unwrap())).unwrap();
    assert_eq!(shown(&Load::recorded(trace)), ["get a 4096 0 @0", "get b 512 0 @1000"]);
}

#[test]
fn plain_keys_with_sizes_and_operations_from_the_command_line() {
    let file = File::new(b"one\ntwo\n\nthree\n");
    assert_eq!(file.trace().format, Format::Keys);
    assert!(!file.trace().is_timed());
    assert_eq!(
        shown(&Load::recorded(file.trace())),
        ["get one 100 0 @-", "get two 100 0 @-", "get three 100 0 @-"]
    );
    let load =
        Load::recorded(file.trace()).mix(Mix::only(Verb::Set)).sizes(Sizes::fixed(7)).ttl(60);
    assert_eq!(shown(&load)[0], "set one 7 60 @-");
}

#[test]
fn compressed_traces_are_read_as_they_are() {
    let file = File::new(&zstd::encode_all(SQUID, 3).unwrap());
    let plain = File::new(SQUID);
    assert_eq!(shown(&Load::recorded(file.trace())), shown(&Load::recorded(plain.trace())));
}

#[test]
fn a_compressed_trace_that_breaks_off_is_said_to() {
    let text: String = (0..200_000).map(|n| format!("key-{}\n", n * 7919 % 100_003)).collect();
    let whole = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let file = File::new(&whole[..whole.len() / 2]);
    let load = Load::recorded(file.trace());
    let asked = ask_all(&load, 0, 1, usize::MAX).len();
    assert!(asked > 0 && asked < 200_000, "{asked}");
    assert!(
        load.skipped().unwrap().broken().unwrap().contains("zstd"),
        "{}",
        load.skipped().unwrap()
    );
}

#[test]
fn threads_ask_every_line_once_and_each_its_own_in_order() {
    let text: String = (0..1000).map(|n| format!("{n}\n")).collect();
    let file = File::new(text.as_bytes());
    for threads in [1, 2, 3, 7] {
        let load = Load::recorded(file.trace());
        let mut all = Vec::new();
        for thread in 0..threads {
            let keys = ask_all(&load, thread, threads, usize::MAX).into_iter();
            let numbers: Vec<usize> = keys
                .map(|operation| String::from_utf8(operation.key).unwrap().parse().unwrap())
                .collect();
            assert!(numbers.is_sorted());
            assert!(numbers.iter().all(|number| number % threads == thread));
            all.extend(numbers);
        }
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>(), "{threads} threads");
    }
}

#[test]
fn malformed_lines_are_counted_once_whoever_reads_them() {
    let file = File::new(b"1,a,5\nbroken\n2,b,x\n3,c,5\nx,d d,1\n4,e f,5\n");
    for threads in [1, 2, 5] {
        let load = Load::recorded(file.trace().repeated(threads == 1));
        for thread in 0..threads {
            ask_all(&load, thread, threads, 10);
        }
        let skipped = load.skipped().unwrap();
        assert_eq!(skipped.malformed(), 4, "{threads} threads: {skipped}");
        let lines: Vec<String> =
            skipped.examples().iter().map(|text| text[..6].to_owned()).collect();
        assert_eq!(lines, ["line 2", "line 3", "line 5", "line 6"]);
    }
}

#[test]
fn again_and_again_time_goes_on() {
    let file = File::new(b"10,a,1\n12,b,1\n11,c,1\n");
    let load = Load::recorded(file.trace().repeated(true));
    let seconds: Vec<u64> = ask_all(&load, 0, 1, 7)
        .iter()
        .map(|operation| operation.at.unwrap_or(Duration::MAX).as_secs())
        .collect();
    assert_eq!(seconds, [0, 2, 2, 2, 4, 4, 4]);
    // A thread without lines of its own ends instead of reading forever.
    assert_eq!(ask_all(&load, 3, 4, 7).len(), 0);
}

#[test]
fn what_is_no_trace_is_refused() {
    let file = File::new(b"a b\nc d\n");
    let error = Trace::open(&file.0, None).unwrap_err();
    assert!(error.contains("--trace-format"), "{error}");
    let error = Trace::open(&file.0, Some(Format::Squid)).unwrap_err();
    assert!(error.contains("squid"), "{error}");
    assert!(Trace::open(&File::new(b"").0, None).is_err());
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// No damaged line panics, or yields a key with a space.
        #[test]
        fn broken_lines_never_panic(
            line in prop_oneof![
                "[ -~]{0,80}",
                "[0-9]{1,20}\\.[0-9]{0,12} +[0-9]+ \\S{1,9} TCP/[0-9]+ [0-9]+ GET \\S{0,20}",
                "h - - \\[[0-9/A-Za-z: +-]{0,30}\\] \"[ -~]{0,40}\"? [0-9]* [0-9]*",
                "[0-9a-z.]{0,8}(,[0-9a-z.]{0,8}){0,8}",
            ],
            number in 1u64..3,
        ) {
            let mut record = TraceRecord::default();
            for format in Format::KNOWN {
                let _ = format.read(line.as_bytes(), number, &mut record);
            }
        }
    }
}
