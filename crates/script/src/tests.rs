//! Scripts without a server.

use std::sync::Arc;

use larder_proto::resp::Version;

use crate::{Event, Machine, Settings, Task, Work, sha1_hex};

fn task(text: &str) -> Task {
    Task {
        name: sha1_hex(text.as_bytes()).into(),
        text: Arc::from(text.as_bytes()),
        work: Work::Run,
        keys: vec![b"k".to_vec()],
        args: vec![b"a".to_vec(), b"b".to_vec()],
        version: Version::V2,
    }
}

fn machine() -> Machine {
    // Every look leaves the script.
    let is_over = Box::new(|| true);
    Machine::new(Settings { memory: 8 << 20, is_over, seed: 1 }).unwrap()
}

/// Runs a script whose commands are all answered with `+OK`; stops it after `slices`.
fn run(machine: &mut Machine, text: &str, slices: usize) -> String {
    let mut event = machine.start(task(text));
    for at in 0.. {
        event = match event {
            Event::Done(bytes) => return String::from_utf8_lossy(&bytes).into_owned(),
            Event::Slice | Event::Log(..) => {
                if at >= slices {
                    machine.kill();
                }
                machine.resume()
            }
            Event::Call(..) => machine.reply(b"+OK\r\n".to_vec()),
            Event::Check(_) => machine.reply(b"1".to_vec()),
        };
    }
    unreachable!()
}

#[test]
fn values_become_replies() {
    let mut machine = machine();
    for (text, reply) in [
        ("return 1", ":1\r\n"),
        ("return {KEYS[1], ARGV[2], #ARGV}", "*3\r\n$1\r\nk\r\n$1\r\nb\r\n:2\r\n"),
        ("return redis.call('set', 'a', 1)", "+OK\r\n"),
        ("return redis.call('set', 'a', 1).ok", "$2\r\nOK\r\n"),
        ("return {1, 2, nil, 4}", "*2\r\n:1\r\n:2\r\n"),
        ("return string.rep('ab', 3)", "$6\r\nababab\r\n"),
        ("return ('x y'):gsub(' ', '%%%0')", "$4\r\nx% y\r\n"),
        ("return {('k=v, a=b'):match('(%w+)=(%w+)')}", "*2\r\n$1\r\nk\r\n$1\r\nv\r\n"),
        ("local n = 0 for w in ('a b c'):gmatch('%a') do n = n + 1 end return n", ":3\r\n"),
        ("return cjson.encode({1, 'a', {b = cjson.null}})", "$18\r\n[1,\"a\",{\"b\":null}]\r\n"),
        ("return cjson.decode('[1,{\"a\":[2]}]')[2].a[1]", ":2\r\n"),
        ("return cmsgpack.unpack(cmsgpack.pack({1, 2, 3}))", "*3\r\n:1\r\n:2\r\n:3\r\n"),
        ("return struct.unpack('>I2', struct.pack('>I2', 513))", ":513\r\n"),
        ("return bit.tohex(bit.bor(1, 16))", "$8\r\n00000011\r\n"),
        ("return {unpack({1, 2, 3}, 2)}", "*2\r\n:2\r\n:3\r\n"),
        ("return {unpack({1, 2, 3}, 0, 2)}", "*0\r\n"),
        ("return #{unpack({1, 2, 3}, '2', 7000)}", ":2\r\n"),
        ("return select('#', unpack({}, -3, 3))", ":7\r\n"),
        ("local a = {} for i = 1, 7900 do a[i] = i end return select('#', unpack(a))", ":7900\r\n"),
        (
            "local a = {} for i = 1, 7900 do a[i] = i end return redis.call('rpush', unpack(a))",
            "+OK\r\n",
        ),
        ("local t = {3, 1, 2} table.sort(t) return t", "*3\r\n:1\r\n:2\r\n:3\r\n"),
    ] {
        assert_eq!(run(&mut machine, text, usize::MAX), reply, "{text}");
    }
}

/// Long ones are left between any two instructions, also below C functions, and end by force.
#[test]
fn scripts_without_an_end_are_stopped() {
    let mut machine = machine();
    for text in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() return pcall(f) end f()  while true do end",
        "table.sort({1, 2, 3}, function() while true do end end)",
        "('x'):gsub('x', function() while true do end end)",
        "string.find(string.rep('a', 1000), string.rep('a-', 20) .. 'b')",
        "coroutine.wrap(function() while true do pcall(error) end end)()",
        "setmetatable({}, {__index = function() while true do end end}).x()",
        "while true do redis.call('ping') end",
        "local s = {} for i = 1, 1e9 do s[i % 100] = string.rep('x', i % 1000) end",
        "while true do string.format('%s', 1) cjson.encode({1}) end",
        // Coroutines and handlers made after the kill catch nothing either.
        "local function g() while true do pcall(coroutine.wrap(function() while true do end end)) \
         end end while true do pcall(g) end",
        "local function f() while true do end end \
         while true do xpcall(f, function() while true do end end) end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    ] {
        let reply = run(&mut machine, text, 50);
        assert!(reply.starts_with("-ERR Script killed by user"), "{text}: {reply}");
        assert_eq!(run(&mut machine, "return 1", usize::MAX), ":1\r\n", "after {text}");
    }
}

/// Where instructions take long, the time is looked at after each of them; the next script begins
/// as if there had been no such one.
#[test]
fn slow_instructions_are_looked_at_more_often() {
    let mut machine = machine();
    let mut slices = |text: &str| {
        let (mut event, mut slices) = (machine.start(task(text)), 0);
        while !matches!(event, Event::Done(_)) {
            slices += 1;
            event = machine.resume();
        }
        slices
    };
    for _ in 0..2 {
        assert!(slices("for i = 1, 200 do end return 1") <= 2);
        let slow = "local a = 'x' local n = 0 for i = 1, 2000 do if a < 'y' then n = n + 1 end end";
        assert!(slices(slow) > 2000);
    }
}

/// A reply may have more pairs than values can be held at a time.
#[test]
fn replies_of_many_pairs_are_whole() {
    let mut machine = machine();
    for kind in ["map", "set"] {
        let text = format!(
            "redis.setresp(3) local t = {{}} for i = 1, 20000 do t[i] = true end \
             return {{{kind} = t}}"
        );
        let reply = run(&mut machine, &text, usize::MAX);
        let len = if kind == "map" { 40000 } else { 20000 };
        assert!(reply.starts_with(&format!("*{len}\r\n")), "{}", &reply[..20]);
        assert_eq!(reply.matches("\r\n").count(), len + 1);
    }
}

/// A sum of a long text goes in parts.
#[test]
fn a_long_text_is_summed_up() {
    let mut machine = machine();
    let reply = run(&mut machine, "return redis.sha1hex(('a'):rep(1e6))", usize::MAX);
    assert_eq!(reply, "$40\r\n34aa973cd4c4daa4f61eeb2bdbad27316534016f\r\n");
}

#[test]
fn memory_is_bounded() {
    let mut machine = machine();
    for text in [
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e12)",
        "local t = {} for i = 1, 1e9 do t[i] = {} end",
        "return ('x'):rep(1e6):gsub('x', ('y'):rep(1e6))",
        "return table.concat({('x'):rep(3e6), ('y'):rep(3e6), ('z'):rep(3e6)})",
        "local t = {} for i = 1, 1e6 do t[i] = 1 end return cjson.encode({t, t, t, t})",
        "return struct.pack('c2000000000', 'x')",
    ] {
        let reply = run(&mut machine, text, usize::MAX);
        assert!(reply.starts_with('-'), "{text}: {}", &reply[..reply.len().min(100)]);
        assert_eq!(run(&mut machine, "return 1", usize::MAX), ":1\r\n", "after {text}");
        assert!(machine.memory() < 4 << 20, "{text}: {} bytes are kept", machine.memory());
    }
}

/// Deep recursion is an error, however it is made.
#[test]
fn stacks_are_bounded() {
    let mut machine = machine();
    for text in [
        "local function f() return f() + 1 end return f()",
        "local function f() return (pcall(f)) end return f()",
        "local function f() return (('x'):gsub('x', f)) end return f()",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local function f() local ok, e = coroutine.resume(coroutine.create(f)) error(e) end f()",
        "return cjson.decode(string.rep('[', 100000))",
        "local t = {} for i = 1, 5000 do t = {t} end return cjson.encode(t)",
        "return cmsgpack.unpack(string.rep('\\145', 100000))",
        "return string.find(string.rep('a', 100000), string.rep('a?', 100000))",
        "return loadstring('return ' .. string.rep('(', 10000) .. '1')()",
        "local t = {} for i = 1, 20000 do t = {t} end return t",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        "local f = function(a, b) return a end local t = {} \
         t = setmetatable({}, {__index = function(t, k) return t[k .. 'x'] end}) return t.a",
        "return string.rep('x', 10):find(string.rep('(', 40))",
    ] {
        let reply = run(&mut machine, text, usize::MAX);
        assert!(
            reply.contains("-ERR") || reply == ":1\r\n" || reply.starts_with('$'),
            "{text}: {}",
            &reply[..reply.len().min(200)]
        );
        assert_eq!(run(&mut machine, "return 1", usize::MAX), ":1\r\n", "after {text}");
    }
}

/// A table that holds itself ends where the stack does.
#[test]
fn replies_have_an_end() {
    let mut machine = machine();
    let reply = run(&mut machine, "local a = {} a[1] = a return a", usize::MAX);
    assert!(reply.starts_with("*1\r\n*1\r\n*1\r\n"));
    assert!(reply.ends_with("*1\r\n-ERR reached lua stack limit\r\n"));
}

/// Numbers of results that overflow an int end in an error, as those for which the stack has no
/// room.
#[test]
fn unpack_refuses_ranges_of_any_length() {
    let mut machine = machine();
    let ends = ["-2147483649", "-2147483648", "-2^33", "0", "2147483647", "2^31", "2^32", "1/0"];
    for from in ends {
        for to in ends {
            let text = format!("return select('#', unpack({{}}, {from}, {to}))");
            let reply = run(&mut machine, &text, usize::MAX);
            let refused = reply.contains("-ERR user_script:1: too many results to unpack");
            assert!(refused || reply.starts_with(':'), "{text}: {reply}");
        }
        run(&mut machine, &format!("return select('#', unpack({{}}, {from}))"), usize::MAX);
    }
    let reply = run(&mut machine, "local x = unpack(nil, 1) return x", usize::MAX);
    let expected = "-ERR user_script:1: bad argument #1 to 'unpack' (table expected, got nil)";
    assert!(reply.contains(expected), "{reply}");
}

/// No script sees what another has left.
#[test]
fn globals_are_protected() {
    let mut machine = machine();
    for (text, error) in [
        ("x = 1", "Attempt to modify a readonly table"),
        ("return x", "Script attempted to access nonexistent global variable 'x'"),
        ("string.rep = 1", "Attempt to modify a readonly table"),
        ("rawset(string, 'rep', 1)", "Attempt to modify a readonly table"),
        ("setmetatable(_G, {})", "Attempt to modify a readonly table"),
        ("getmetatable('').__index = 1", "Attempt to modify a readonly table"),
        ("KEYS = {}", "Attempt to modify a readonly table"),
        ("redis.call = 1", "Attempt to modify a readonly table"),
        ("print(1)", "nonexistent global variable 'print'"),
        ("return io", "nonexistent global variable 'io'"),
        ("return os.execute", "nonexistent global variable 'os'"),
        ("return debug", "nonexistent global variable 'debug'"),
        ("return setfenv", "nonexistent global variable 'setfenv'"),
        ("return require('x')", "nonexistent global variable 'require'"),
        ("return loadstring(string.dump(function() end))()", "attempt to call a nil value"),
        ("loadstring('y = 1')()", "Attempt to modify a readonly table"),
    ] {
        let reply = run(&mut machine, text, usize::MAX);
        assert!(reply.contains(error), "{text}: {reply}");
    }
    for text in [
        "table.insert(string, 1)",
        "for k in pairs(string) do string = nil end",
        "table.foreach(math, function(k) rawset(math, k, nil) end)",
        "getmetatable('').__name = 1",
        "_G[1] = 2",
        "pcall(rawset, _G, 'string', nil)",
        "for k, v in pairs(_G) do pcall(rawset, v, 'call', nil) end",
        "table.sort(redis)",
        "math.randomseed(1)",
    ] {
        run(&mut machine, text, usize::MAX);
        let check = "local n = 0 for k in next, string do n = n + 1 end \
                     return {n, #string, ('x'):rep(2), redis.sha1hex(''), math.floor(1.5)}";
        let reply = run(&mut machine, check, usize::MAX);
        assert!(
            reply.starts_with("*5\r\n:0\r\n:0\r\n$2\r\nxx\r\n$40\r\nda39a3ee"),
            "{text}: {reply}"
        );
    }
}

/// Any bytes as data, patterns and formats: the libraries answer or fail, and change no value.
#[test]
fn libraries_take_any_bytes() {
    const WORDS: &[u8] =
        b"%[]()*+-?.^$bfaz09{}\":,\\u\x00\x7f\x80\x93\xa3\xc1\xca\xcf\xd3\xdb\xdd\xdf<>!iIsc";
    let mut machine = machine();
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..2000 {
        let mut word = || (0..draw(12)).map(|_| WORDS[draw(WORDS.len())]).collect::<Vec<u8>>();
        let args = vec![word(), word()];
        let given = Task { args: args.clone(), ..task(include_str!("any_bytes.lua")) };
        let mut event = machine.start(given);
        let reply = loop {
            match event {
                Event::Done(reply) => break reply,
                _ => event = machine.resume(),
            }
        };
        assert_eq!(String::from_utf8_lossy(&reply), ":1\r\n", "{args:?}");
    }
}

/// A machine may be dropped in the middle of a script.
#[test]
fn a_machine_is_dropped_in_any_state() {
    for text in ["while true do pcall(error) end", "redis.call('ping')", "return 1"] {
        let mut machine = machine();
        machine.start(task(text));
        drop(machine);
    }
    drop(machine());
}

/// Natives on long texts and tables are left in the middle, and end by force.
#[test]
fn natives_on_megabytes_are_left_in_the_middle() {
    for native in [
        "s:upper()",
        "s:lower()",
        "s:reverse()",
        "s:rep(2)",
        "table.concat(t, s:sub(1, 20))",
        "table.insert(t, 1, 0)",
        "table.remove(t, 1)",
        "table.maxn(t)",
    ] {
        // The texts and tables are made first: that takes slices, too.
        let made =
            "local s, t = string.rep('abcdefgh', 131072), {} for i = 1, 20000 do t[i] = i end ";
        let looks = |text: String| {
            let looks = std::rc::Rc::new(std::cell::Cell::new(0));
            let count = looks.clone();
            let is_over = Box::new(move || {
                count.set(count.get() + 1);
                false
            });
            let mut machine = Machine::new(Settings { memory: 8 << 20, is_over, seed: 1 }).unwrap();
            assert!(matches!(machine.start(task(&text)), Event::Done(_)));
            looks.get()
        };
        let without = looks(format!("{made} return 1"));
        let with = looks(format!("{made} {native} return 1"));
        assert!(with > without + 2, "{native}: {with} looks, {without} without it");
        // The looks count from its call on.
        let is_made = std::rc::Rc::new(std::cell::Cell::new(false));
        let looked = is_made.clone();
        let is_over = Box::new(move || looked.get());
        let mut machine = Machine::new(Settings { memory: 8 << 20, is_over, seed: 1 }).unwrap();
        let text =
            format!("{made} redis.call('ping') while true do pcall(function() {native} end) end");
        let mut event = machine.start(task(&text));
        assert!(matches!(event, Event::Call(..)), "{native}");
        is_made.set(true);
        event = machine.reply(b"+OK\r\n".to_vec());
        for _ in 0..100 {
            assert!(matches!(event, Event::Slice), "{native}");
            event = machine.resume();
        }
        machine.kill();
        while matches!(event, Event::Slice) {
            event = machine.resume();
        }
        let Event::Done(reply) = event else { panic!("{native}") };
        assert!(String::from_utf8_lossy(&reply).contains("Script killed"), "{native}");
    }
}

/// The effects and words of these functions are what Lua's own did, with the place of an error.
#[test]
fn natives_for_tables_are_those_of_lua() {
    let mut machine = machine();
    for (text, reply) in [
        ("return table.concat({1, 'a', 2.5}, ', ')", "$9\r\n1, a, 2.5\r\n"),
        ("return table.concat({1, 2, 3, 4}, '', 2, 3)", "$2\r\n23\r\n"),
        (
            "for _, n in ipairs({0, -5, 99999999999999, 1e14, -1e15, 0.1, 2^53, 1/0}) do \
             assert(table.concat({n}) == tostring(n)) end return 1",
            ":1\r\n",
        ),
        ("return table.concat({}) .. table.concat({1}, 'x', 2)", "$0\r\n\r\n"),
        (
            "local t, i = {}, table.insert i(t, 'a') i(t, 1, 'b') i(t, 2, 'c') return t",
            "*3\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\na\r\n",
        ),
        ("local t = {1, 2} table.insert(t, 4, 4) return {t[3] == nil, t[4]}", "*2\r\n:1\r\n:4\r\n"),
        (
            "local t = {} for i = 1, 100 do t[i] = i end table.insert(t, 1, 0) \
             return {#t, t[1], t[2], t[101]}",
            "*4\r\n:101\r\n:0\r\n:1\r\n:100\r\n",
        ),
        (
            "local t = {} for i = 1, 100 do t[i] = i end \
             return {table.remove(t, 1), #t, t[1], t[99]}",
            "*4\r\n:1\r\n:99\r\n:2\r\n:100\r\n",
        ),
        (
            "local t = {1, 2, 3} return {table.remove(t), table.remove(t, 1), #t, t[1]}",
            "*4\r\n:3\r\n:1\r\n:1\r\n:2\r\n",
        ),
        ("return select('#', table.remove({})) + select('#', table.remove({1}, 5))", ":0\r\n"),
        ("return table.maxn({1, 2, [10] = 1, x = 2})", ":10\r\n"),
        (
            "return ('aBc'):upper() .. ('aBc'):lower() .. ('aBc'):reverse() .. ('ab'):rep(0)",
            "$9\r\nABCabccBa\r\n",
        ),
    ] {
        assert_eq!(run(&mut machine, text, usize::MAX), reply, "{text}");
    }
    for (text, error) in [
        ("return table.concat({{}})", "invalid value (table) at index 1 in table for 'concat'"),
        (
            "return table.concat({1}, 1, 1, 2)",
            "invalid value (nil) at index 2 in table for 'concat'",
        ),
        ("return table.concat(1)", "bad argument #1 to 'concat' (table expected, got number)"),
        ("table.insert({})", "wrong number of arguments to 'insert'"),
        ("table.insert({}, 1, 2, 3)", "wrong number of arguments to 'insert'"),
        ("table.insert({}, 'x', 2)", "bad argument #2 to 'insert' (number expected, got string)"),
        ("table.insert(nil, 2)", "bad argument #1 to 'insert' (table expected, got nil)"),
        ("return table.remove('x')", "bad argument #1 to 'remove' (table expected, got string)"),
        ("return string.upper()", "bad argument #1 to 'upper' (string expected, got no value)"),
    ] {
        let reply = run(&mut machine, text, usize::MAX);
        assert!(reply.starts_with(&format!("-ERR user_script:1: {error}")), "{text}: {reply}");
    }
}
