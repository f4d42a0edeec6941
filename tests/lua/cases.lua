-- Scripts that answer the same in Larder and Redis 7.0, one in a line: EVAL script 2 k1 k2 a1 a2.
-- They run in this order on one connection, once in RESP2 and once in RESP3.

-- Values that a script returns.
return 1
return 1.9
return -1.9
return 1e15
return 'text'
return ''
return true
return false
return nil
return
return {}
return {1, 2, 3}
return {1, 2, nil, 4}
return {nil, 2}
return {1, {2, {3, {'four'}}}, true, false}
return {ok = 'fine'}
return {ok = 'fi\r\nne'}
return {err = 'My mistake'}
return {err = 'ERR My mistake'}
return {double = 3.5}
return {double = 3}
return {double = 'x'}
return {double = -0.1}
return {map = {a = 1}}
return {map = {}}
return {set = {a = true}}
return {set = {}}
return {big_number = '12345678901234567890'}
return {verbatim_string = {format = 'txt', string = 'hello'}}
return {verbatim_string = {format = 'txt'}}
return {1, {double = 2.5}, {map = {x = {1, 2}}}}
redis.setresp(3) return true
redis.setresp(3) return false
redis.setresp(3) return {true, false, nil}
redis.setresp(3) return {map = {[1] = {double = 1.5}}}
redis.setresp(3) return nil
return function() end
return coroutine.create(function() end)
return {1, function() end, 3}
return {a = 1, b = 2}
return {1, 2, a = 3}
return KEYS
return ARGV
return {KEYS[1], KEYS[2], KEYS[3], ARGV[1]}
return #KEYS + #ARGV
return {KEYS[2], ARGV[2], ARGV[3]}
return 9007199254740993
return 2^53
return -2^63
return 1/3
return 0/1
return '\0\1\255'
return ('x'):rep(5000)

-- Commands.
return redis.call('set', KEYS[1], ARGV[1])
return redis.call('get', KEYS[1])
return redis.call('GET', KEYS[2])
return {redis.call('get', KEYS[1]), redis.call('get', KEYS[2])}
return redis.call('get', KEYS[2]) == false
return redis.call('set', KEYS[1], 5).ok
return redis.call('incr', KEYS[1])
return redis.call('incrby', KEYS[1], 10)
return redis.call('incrby', KEYS[1], 2.0)
return redis.call('incrbyfloat', KEYS[1], 0.5)
return redis.call('set', KEYS[1], 3.14)
return redis.call('get', KEYS[1])
return redis.call('set', KEYS[1], 1e20)
return redis.call('get', KEYS[1])
return redis.call('set', KEYS[1], 1/3)
return redis.call('get', KEYS[1])
return redis.call('set', KEYS[1], 100000000000000)
return redis.call('get', KEYS[1])
return type(redis.call('incrby', KEYS[1], 1))
return redis.call('del', KEYS[1], KEYS[2])
return redis.call('rpush', KEYS[1], 'a', 'b', 'c')
return redis.call('lrange', KEYS[1], 0, -1)
return #redis.call('lrange', KEYS[1], 0, -1)
return redis.call('lrange', KEYS[2], 0, -1)
return redis.call('lpop', KEYS[2])
return redis.call('lpop', KEYS[1])
return redis.call('lpop', KEYS[1], 10)
return redis.call('hset', KEYS[1], 'f', 'v', 'g', 'w')
return redis.call('hgetall', KEYS[1])
redis.setresp(3) return redis.call('hgetall', KEYS[1])
redis.setresp(3) return redis.call('hgetall', KEYS[1]).map.f
return redis.call('hgetall', KEYS[1])[2]
return redis.call('hmget', KEYS[1], 'f', 'no', 'g')
return redis.call('hget', KEYS[1], 'no')
return redis.call('hexists', KEYS[1], 'f')
return redis.call('get', KEYS[1])
return redis.pcall('get', KEYS[1])
return redis.pcall('get', KEYS[1]).err
return redis.call('type', KEYS[1])
return redis.call('type', KEYS[1]).ok
return redis.call('del', KEYS[1])
return redis.call('zadd', KEYS[1], 1, 'a', 2.5, 'b')
return redis.call('zrange', KEYS[1], 0, -1, 'withscores')
redis.setresp(3) return redis.call('zrange', KEYS[1], 0, -1, 'withscores')
return redis.call('zscore', KEYS[1], 'b')
redis.setresp(3) return redis.call('zscore', KEYS[1], 'b')
redis.setresp(3) return redis.call('zscore', KEYS[1], 'b').double
redis.setresp(3) return redis.call('zscore', KEYS[1], 'no') == nil
return redis.call('zscore', KEYS[1], 'no') == false
return redis.call('zincrby', KEYS[1], 1, 'a')
return redis.call('zrangebyscore', KEYS[1], '-inf', '+inf', 'limit', 0, 1)
return redis.call('zpopmin', KEYS[1])
return redis.call('del', KEYS[1])
return redis.call('sadd', KEYS[1], 'one')
return redis.call('smembers', KEYS[1])
redis.setresp(3) return redis.call('smembers', KEYS[1])
redis.setresp(3) return redis.call('smembers', KEYS[1]).set.one
return redis.call('sismember', KEYS[1], 'one')
return redis.call('scard', KEYS[1])
return redis.call('del', KEYS[1])
return redis.call('set', KEYS[1], 'v', 'px', 100000)
return redis.call('set', KEYS[1], 'v', 'nx')
return redis.call('set', KEYS[1], 'v', 'nx') == false
return redis.call('pttl', KEYS[1]) > 90000
return redis.call('persist', KEYS[1])
return redis.call('exists', KEYS[1], KEYS[2])
return redis.call('mget', KEYS[1], KEYS[2])
return redis.call('ping')
return redis.call('echo', 'hello')
return redis.call('select', 1)
return redis.call('dbsize')
redis.call('select', 3) redis.call('set', 'x', 1) return redis.call('dbsize')
return redis.call('exists', 'x')
redis.call('select', 3) return redis.call('del', 'x')
return redis.call('time')[1] + 0 > 0
return redis.call('publish', 'nobody', 'hears')
return redis.call('mset', 'u1', 1, 'u2', 2)
return redis.call('mget', 'u1', 'u2', 'u3')
return redis.call('rename', 'u1', 'u3')
return redis.call('del', 'u2', 'u3')
for i = 1, 100 do redis.call('set', 'many:' .. i, i) end return redis.call('dbsize') > 100
local n = 0 for i = 1, 100 do n = n + redis.call('del', 'many:' .. i) end return n
return redis.call('setbit', KEYS[2], 7, 1)
return redis.call('bitcount', KEYS[2])
return redis.call('append', KEYS[2], 'xyz')
return redis.call('strlen', KEYS[2])
return redis.call('sort', KEYS[2])
return redis.call('lmpop', 1, KEYS[2], 'left')
return redis.call('del', KEYS[2])
return redis.call('command', 'count') > 0
return redis.call('brpop', KEYS[2], 0)
return redis.call('blmpop', 1, 1, KEYS[2], 'left')
return redis.call('wait', 0, 0)

-- Errors of commands.
return redis.call('nosuch')
return redis.pcall('nosuch')
return redis.pcall('nosuch').err
return redis.call('get')
return redis.pcall('get', 'a', 'b')
return redis.call()
return redis.pcall()
return redis.call({})
return redis.call('get', {})
return redis.call('get', nil)
return redis.call('set', 'a', true)
return redis.call('set', 'a', 'b', 'c')
return redis.call('incr', KEYS[1])
return redis.pcall('incr', KEYS[1])
local e = redis.pcall('incr', KEYS[1]) return {type(e), e.err, tostring(e.ok), tostring(e.ignore_error_stats_update)}
return redis.pcall('incr', KEYS[1])['err']
local ok, e = pcall(redis.call, 'incr', KEYS[1]) return {tostring(ok), type(e), e}
local ok, e = pcall(redis.call, 'nosuch') return {tostring(ok), type(e), e}
local ok, e = pcall(function() return redis.call('incr', KEYS[1]) end) return {tostring(ok), e}
local ok, e = xpcall(function() return redis.call('incr', KEYS[1]) end, function(e) return e.err end) return {tostring(ok), e}
if redis.pcall('incr', KEYS[1]).err then return 'failed' end
return redis.call('multi')
return redis.call('exec')
return redis.call('watch', 'x')
return redis.call('subscribe', 'x')
return redis.call('psubscribe', 'x')
return redis.call('blpop', 'q', 0)
return redis.call('eval', 'return 1', 0)
return redis.call('evalsha', 'abc', 0)
return redis.call('script', 'flush')
return redis.call('script', 'nosuch')
return redis.call('config', 'get', 'maxmemory')
return redis.call('client', 'id')
return redis.call('auth', 'x')
return redis.call('hello')
return redis.call('monitor')
return redis.call('quit')
return redis.call('reset')
return redis.call('debug', 'x')
return redis.call('shutdown')
return redis.call('save')
return redis.pcall('multi')
return redis.call('acl', 'whoami')

-- Errors of scripts.
error('boo')
error('boo', 0)
error('boo', 2)
error({err = 'My Err'})
error({err = 'ERR My Err', x = 1})
error()
error(12)
error(true)
error(nil)
return x
return x.y
x = 1
_G.x = 1
local t = {} return t.a.b
return 1 + nil
return 1 + {}
return {} < {}
return 'a' < 1
return #nil
return ('x')()
return nil .. 'x'
local f = nil f()
local t = {} t.x.y = 1
local t = {} t[nil] = 1
return a b
return 'unfinished
for
if true then return 1
return (((
)
return 1 return 2
local x <const> = 1
goto done
return 1 // 2
local r = setmetatable(1, {}) return r
return assert(false)
return assert(false, 'told')
return assert(nil, 'told')
return assert(1, 'x')
return tostring(pcall(error))
return {pcall(error, 'x')}
return {pcall(error, {err = 'E x'})}
return type(select(2, pcall(error, {})))
local ok, e = pcall(function() error('inside') end) return e
local ok, e = pcall(function() error('inside', 0) end) return e
local ok, e = pcall(function() local x = nil + 1 end) return e
local ok, e = pcall(function() return nosuch end) return e
return {xpcall(function() error('a', 0) end, function(e) return e .. 'b' end)}
local function f() return f() + 1 end return f()
return redis.error_reply('My Err')
return redis.error_reply('-My Err')
return redis.error_reply('Single')
return redis.error_reply('')
return redis.error_reply(1)
return redis.error_reply()
return redis.error_reply('a', 'b')
return redis.error_reply('My Err').err
return redis.status_reply('fine')
return redis.status_reply(1)
return redis.status_reply()
return redis.status_reply('fine').ok
return {redis.status_reply('a'), redis.error_reply('B c')}
return redis.setresp(2)
return redis.setresp(4)
return redis.setresp()
return redis.setresp('x')
return redis.sha1hex('')
return redis.sha1hex('hello')
return redis.sha1hex(12)
return redis.sha1hex()
return redis.sha1hex('a', 'b')
return redis.log(redis.LOG_DEBUG, 'hello')
return redis.log(redis.LOG_DEBUG, 'hello', 'world', 1)
return redis.log('x')
return redis.log('x', 'y')
return redis.log(9, 'y')
return redis.log(-1, 'y')
return {redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING}
return {redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_ALL}
return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM}
return redis.replicate_commands()
return redis.set_repl(redis.REPL_ALL)
return redis.set_repl(9)
return redis.set_repl()
return redis.breakpoint()
return redis.debug('x')
return redis.acl_check_cmd('get', 'x')
return redis.acl_check_cmd('nosuch', 'x')
return redis.acl_check_cmd()
return redis.nosuch
redis.nosuch()

-- Globals and their protection.
print(1)
return os.time()
return io
return require
return dofile('x')
return loadfile('x')
return debug
return setfenv
return getfenv
return module
return package
return newproxy
string.x = 1
rawset(_G, 'x', 1)
rawset(string, 'x', 1)
setmetatable(_G, {})
setmetatable(string, {})
getmetatable('').__index = 1
KEYS = 1
ARGV = nil
redis.call = nil
_G = nil
local s = string s.format = nil
return type(_G.string)
return _G.KEYS[1]
return type(_G)
return _VERSION
return rawget(_G, 'nosuch') == nil
return tostring(pcall(function() return nosuch end))
return tostring(rawequal(_G, _G))
return select('#', 1, 2, 3)
return {select(2, 'a', 'b', 'c')}
return {unpack({1, 2, 3})}
return {tonumber('10'), tonumber('0x10'), tonumber('10', 2), tostring(tonumber('x'))}
return tostring(1e100)
return tostring(0.1)
return tostring(-0.0)
return tostring(1/0)
return tostring(12345678901234567890)
return loadstring('return 1 + 1')()
return loadstring('return x')()
return tostring(loadstring('return ('))
return select(2, loadstring('return ('))
return load(function() return nil end) == nil
local done = false return load(function() if done then return nil end done = true return 'return 7' end)()
return tostring(loadstring('\27Lua'))
return type(string.dump(function() end))
return collectgarbage('count') > 0
return collectgarbage()
return gcinfo() > 0
local t = setmetatable({}, {__index = function(t, k) return k .. '!' end}) return t.x
local t = setmetatable({}, {__call = function(self, x) return x * 2 end}) return t(21)
local t = setmetatable({}, {__tostring = function() return 'me' end}) return tostring(t)
local t = setmetatable({}, {__eq = function() return true end}) return t == t
local t = setmetatable({1, 2}, {__index = function() return 9 end}) return t
return getmetatable({}) == nil
local co = coroutine.create(function(a) local b = coroutine.yield(a + 1) return b * 2 end) local _, x = coroutine.resume(co, 1) local _, y = coroutine.resume(co, 10) return {x, y, coroutine.status(co)}
local f = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) return {f(), f(), f()}
local co = coroutine.create(function() error('x', 0) end) local ok, e = coroutine.resume(co) return {tostring(ok), e}
local co = coroutine.create(function() return redis.call('ping') end) local ok, e = coroutine.resume(co) return e
local f = coroutine.wrap(function() error('x', 0) end) f()
return coroutine.yield(1)

-- string
return {string.find('hello', 'l')}
return {string.find('hello', 'l', 4)}
return {string.find('hello', 'xyz')}
return {string.find('hello', '')}
return {string.find('hello', '', 10)}
return {string.find('hello', 'l+')}
return {string.find('a.b', '.', 1, true)}
return {string.find('hello', '(l)(l)')}
return {string.find('hello', '()ll()')}
return {string.find('hello', 'h', -10)}
return {string.find('hello', 'o', -1)}
return {string.match('key=val', '(%w+)=(%w+)')}
return {string.match('2026-11-26', '(%d+)-(%d+)-(%d+)')}
return {string.match('  x  ', '^%s*(.-)%s*$')}
return {string.match('[[x]]', '%[%[(.*)%]%]')}
return {string.match('THE (quick) fox', '%((%a+)%)')}
return {string.match('x', '()')}
return {string.match('hello', '.-(l+)(.*)')}
return {string.match('f(a(b)c)d', '%b()')}
return {string.match('THE END', '%f[%a]%a+%f[%A]')}
return {string.match('abab', '(ab)%1')}
return {string.match('hello', '[a-f]+')}
return {string.match('hello', '[^a-f]+')}
return {string.match('a-b]c', '[]-]')}
return {string.match('a%b', '%%')}
return {string.match('x\0y', '%z')}
return {string.match('0x1F', '%x+', 3)}
return {string.match('', '.*')}
return {string.match('aaa', 'a?a?a?a?')}
return {string.match('aaa', '^a-$')}
return {string.gsub('hello world', 'o', '0')}
return {string.gsub('hello world', 'o', '0', 1)}
return {string.gsub('hello world', '(%w+)', '<%1>')}
return {string.gsub('hello world', '%w+', '%0 %0')}
return {string.gsub('hello', '', '-')}
return {string.gsub('abc', '%w', {a = '1', b = true, c = false})}
return {string.gsub('abc', '%w', {a = 1, b = 2})}
return {string.gsub('abc', '%w', function(c) if c == 'b' then return nil end return c:upper() end)}
return {string.gsub('$name is $age', '%$(%w+)', {name = 'Bob', age = 7})}
return {string.gsub('abc', '^a', 'x')}
return {string.gsub('abc', '()', '%1')}
return {string.gsub('abc', 'b', '%%')}
return {string.gsub('x y z', ' ', '')}
return string.gsub('abc', 'b', {}, 'x')
return string.gsub('abc', 'b')
return string.gsub('abc', 'b', true)
return string.gsub('abc', '(', 'x')
return string.gsub('abc', '%', 'x')
return string.gsub('abc', '[a', 'x')
return string.gsub('abc', 'a', '%2')
return string.gsub('abc', '%w', function() return {} end)
return string.find('abc', '%1')
return string.find('abc', '%f')
return string.find('abc', '%b')
return string.find('abc', ')')
return string.find()
return string.find('x')
return string.find({}, 'x')
return string.find(nil, 'x')
return string.match('x', nil)
return {string.find(123, 2)}
local t = {} for w in string.gmatch('one two three', '%a+') do t[#t + 1] = w end return t
local t = {} for k, v in string.gmatch('a=1, b=2', '(%w+)=(%w+)') do t[#t + 1] = k .. v end return t
local t = {} for p in ('abc'):gmatch('()') do t[#t + 1] = p end return t
local t = {} for w in string.gfind('a b', '%a') do t[#t + 1] = w end return t
return string.gmatch('x')
return {string.rep('ab', 3), string.rep('ab', 0), string.rep('ab', -1), string.rep('', 5)}
return string.rep()
return string.rep('x', 'y')
return {('x'):rep(2), ('abc'):upper(), ('ABC'):lower(), ('abc'):reverse(), ('abc'):len()}
return {('hello'):sub(2, 3), ('hello'):sub(-3), ('hello'):sub(2), ('hello'):sub(10)}
return {string.byte('abc', 1, -1)}
return string.char(104, 105)
return string.format('%d %s %5.2f %x %q %%', 42, 'x', 3.14159, 255, 'a"b')
return string.format('%5s|%-5s|%05d|%+d|%e|%g|%c|%i', 'a', 'b', 42, 7, 12345.678, 0.0001, 65, 3)
return string.format('%s %s', 1, true)
return string.format('%d', 'x')
return string.format('%y', 1)
return string.format('%s')
return ('%s=%s'):format('a', 1)

-- table and math
local t = {3, 1, 2} table.sort(t) return t
local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t
local t = {} for i = 1, 100 do t[i] = (i * 7919) % 101 end table.sort(t) return t
local t = {'b', 'a', 'c'} table.sort(t) return t
local r = table.sort({1, 'x'}) return r
local r = table.sort(1) return r
local r = table.sort({1, 2}, 1) return r
return table.concat({1, 2, 3}, ',')
return table.concat({1, 2, 3}, ',', 2)
return table.concat({1, 2, 3}, ', ', 2, 3)
return table.concat({})
return table.concat({1, {}, 3})
local t = {1, 2} table.insert(t, 3) table.insert(t, 1, 0) return t
local t = {1, 2, 3} return {table.remove(t), table.remove(t, 1), #t}
return table.insert({}, 1, 2, 3)
return table.getn({1, 2, 3})
return table.maxn({1, 2, [10] = 3})
local n = 0 table.foreach({a = 1, b = 2}, function(k, v) n = n + v end) return n
local n = 0 table.foreachi({1, 2, 3}, function(i, v) n = n + v end) return n
local n = 0 for k, v in pairs({1, 2, a = 3}) do n = n + v end return n
local n = 0 for i, v in ipairs({1, 2, nil, 4}) do n = n + v end return n
return next({}) == nil
return {next({5})}
local r = pairs(nil) return r
return ipairs()
local n = 0 for k in pairs(string) do n = n + 1 end return n
local n = 0 for k in pairs(math) do n = n + 1 end return n
local t = {} for k in pairs(table) do t[#t + 1] = k end table.sort(t) return t
return {math.floor(1.5), math.ceil(1.5), math.max(1, 3, 2), math.min(3, 1), math.abs(-4)}
return {math.fmod(7, 3), math.pow(2, 10), math.sqrt(16), math.modf(3.7)}
return tostring(math.pi)
return tostring(math.huge)
return tostring(math.log10(1000))
return tostring(math.exp(1))
return 7 % 3
return -7 % 3
return 2 ^ 10
return 7 / 2
return '10' + 5
return 10 .. 20
math.randomseed(1) return {math.random(1000), math.random(1000), math.random(5, 10), tostring(math.random())}
math.randomseed(12345) return {math.random(1000000), math.random(1000000)}
local r = math.random(0) return r
local r = math.random(2, 1) return r
return math.floor('x')
return bit.band(0xff, 0x0f)
return {bit.bor(1, 2, 4), bit.bxor(5, 1), bit.bnot(0), bit.lshift(1, 4), bit.rshift(-1, 28)}
return {bit.arshift(-256, 4), bit.rol(0x12345678, 8), bit.ror(0x12345678, 8), bit.bswap(0x12345678)}
return {bit.tobit(0xffffffff), bit.tobit(2^32 + 5), bit.tobit(1.5), bit.tobit(2.5)}
return {bit.tohex(255), bit.tohex(255, 4), bit.tohex(255, -4), bit.tohex(-1)}
return bit.band()
return bit.band('x')
return bit.band({})

-- cjson
return cjson.encode({})
return cjson.encode({1, 2, 3})
return cjson.encode({a = 1})
return cjson.encode({1, 'two', true, false, cjson.null})
return cjson.encode({{}, {{}}})
return cjson.encode('text "quoted" \\ / \n\r\t\b\f\1\127')
return cjson.encode(1.5)
return cjson.encode(1e100)
return cjson.encode(123456789012345)
return cjson.encode(1234567890123456)
return cjson.encode(0.1)
return cjson.encode(-0.0)
return cjson.encode(1e-5)
return cjson.encode(100000000000000000000)
return cjson.encode(3.0)
return cjson.encode(1/3)
return cjson.encode(true)
return cjson.encode(nil)
return cjson.encode({[1] = 'a', [3] = 'c'})
return cjson.encode({[1] = 'a', [20] = 'c'})
return cjson.encode({[1000] = 'c'})
return cjson.encode({['1'] = 'a'})
return cjson.encode({[1.5] = 'a'})
return cjson.encode({[-1] = 'a'})
return cjson.encode({[0] = 'a'})
return cjson.encode({[true] = 'a'})
return cjson.encode(function() end)
return cjson.encode({f = print})
return cjson.encode({f = redis.call})
return cjson.encode(1/0)
return cjson.encode(0/0)
return cjson.encode()
return cjson.encode(1, 2)
local t = {} for i = 1, 1001 do t = {t} end return #cjson.encode(t)
local t = {} for i = 1, 998 do t = {t} end return #cjson.encode(t)
local t = {} t[1] = t return cjson.encode(t)
return cjson.encode('ünïcode €')
return cjson.decode('1')
return cjson.decode('1.5') * 2
return cjson.decode('"text"')
return cjson.decode('[1, 2, 3]')
return cjson.decode('[]')
return cjson.decode('{}')
return cjson.decode('{"a": {"b": [1, 2, {"c": "d"}]}}').a.b[3].c
return cjson.decode('[null, 1]')
return cjson.decode('[1, null]')[2] == cjson.null
return tostring(cjson.decode('null'))
return type(cjson.null)
return cjson.decode('true')
return cjson.decode('"\\u00e9\\u20ac\\ud83d\\ude00"')
return cjson.decode('"a\\nb\\tc\\"d\\\\e\\/f"')
return cjson.decode('  [1 , 2 ]  ')
return cjson.decode('-1e3')
return cjson.decode('0x10')
return cjson.decode('1e999')
return cjson.decode('')
return cjson.decode(' ')
return cjson.decode('[1, 2')
return cjson.decode('[1 2]')
return cjson.decode('{"a" 1}')
return cjson.decode('{"a": 1')
return cjson.decode('{a: 1}')
return cjson.decode('{1: 1}')
return cjson.decode('[1,]')
return cjson.decode('{"a":1,}')
return cjson.decode('nul')
return cjson.decode('tru')
return cjson.decode('"abc')
return cjson.decode('"\\x"')
return cjson.decode('"\\u12"')
return cjson.decode('"\\ud800"')
return cjson.decode('[1] x')
return cjson.decode('+')
return cjson.decode('-')
return cjson.decode('@')
return cjson.decode("'a'")
return cjson.decode(nil)
return cjson.decode()
return cjson.decode({})
return cjson.decode(string.rep('[', 1001) .. string.rep(']', 1001))
return type(cjson.decode(string.rep('[', 1000) .. string.rep(']', 1000)))
return cjson.encode(cjson.decode('{"x":[1,2,{"y":null}]}'))
return cjson.encode(cjson.decode('[[],{}]'))
return {cjson._NAME, cjson._VERSION}
return cjson.decode(12)
local ok, e = pcall(cjson.decode, '{') return e
local ok, e = pcall(cjson.encode, {[{}] = 1}) return e
return {cjson.encode_sparse_array()}
return {cjson.encode_max_depth()}
return {cjson.decode_max_depth()}
return {cjson.encode_number_precision()}
return {cjson.encode_invalid_numbers()}
return {cjson.decode_invalid_numbers()}
cjson.encode_sparse_array(true) local s = cjson.encode({[1000] = 1}) cjson.encode_sparse_array(false) return s
cjson.encode_number_precision(3) local s = cjson.encode(1/3) cjson.encode_number_precision(14) return s
cjson.encode_max_depth(2) local ok, e = pcall(cjson.encode, {{{}}}) cjson.encode_max_depth(1000) return e

-- cmsgpack
return cmsgpack.pack(1)
return cmsgpack.pack(-1, 127, 128, 255, 256, 65535, 65536, 2^32 - 1, 2^32, 2^53)
return cmsgpack.pack(-32, -33, -128, -129, -32768, -32769, -2^31, -2^31 - 1)
return cmsgpack.pack(1.5, 0.1, -0.0, 1e100, 1/0)
return cmsgpack.pack('', 'a', ('x'):rep(31), ('x'):rep(32), ('x'):rep(255), ('x'):rep(256))
return cmsgpack.pack(('x'):rep(70000)):sub(1, 10)
return cmsgpack.pack(true, false, nil)
return cmsgpack.pack({}, {1, 2, 3}, {a = 1})
return cmsgpack.pack({1, nil, 3})
return cmsgpack.pack({[1] = 1, [2] = 2, [4] = 4}):len()
local t = {} for i = 1, 20 do t[i] = i end return cmsgpack.pack(t)
local t = {} for i = 1, 20 do t = {t} end return cmsgpack.pack(t)
return cmsgpack.pack({a = {b = {c = 1}}})
return cmsgpack.pack()
return cmsgpack.pack(function() end)
return cmsgpack.unpack(cmsgpack.pack({1, 'two', {3}, true}))
return {cmsgpack.unpack(cmsgpack.pack(1, 2, 3))}
return cmsgpack.unpack(cmsgpack.pack({a = 'x'})).a
return tostring(cmsgpack.unpack(cmsgpack.pack(0.1)))
return tostring(cmsgpack.unpack(cmsgpack.pack(-2^53)))
return cmsgpack.unpack(cmsgpack.pack(nil))
return cmsgpack.unpack('')
return cmsgpack.unpack('\146\1')
return cmsgpack.unpack('\193')
return cmsgpack.unpack('\217')
return cmsgpack.unpack('\199\1\1\1')
return cmsgpack.unpack()
return cmsgpack.unpack({})
return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3))}
return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3), 1)}
return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3), 2)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2, 1)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2, 9)}
return cmsgpack.unpack('\202\63\128\0\0')
return cmsgpack.unpack('\196\2ab')
return cmsgpack.unpack('\129\1\2')[1]

-- struct
return struct.pack('HH', 1, 2)
return struct.pack('>HH', 1, 2)
return struct.pack('<i4>i4', 1, 1)
return struct.pack('bBhHiIlL', 1, 2, 3, 4, 5, 6, 7, 8)
return struct.pack('>bBhHiIlL', -1, 255, -3, 4, -5, 6, -7, 8)
return struct.pack('fd', 1.5, 2.5)
return struct.pack('>fd', 1.5, 2.5)
return struct.pack('s', 'abc')
return struct.pack('c3c2', 'abc', 'xyz')
return struct.pack('c0', 'abc')
return struct.pack('Bc0', 3, 'abc')
return struct.pack('xxB', 1)
return struct.pack('!4BI', 1, 2)
return struct.pack('!BhBlB', 1, 2, 3, 4, 5)
return struct.pack('I3', 66051)
return struct.pack('>I3', 66051)
return struct.pack('c5', 'abc')
return struct.pack('z', 1)
return struct.pack('i33', 1)
return struct.pack('!3i', 1)
return struct.pack('i')
return struct.pack('i', 'x')
return struct.pack()
return {struct.unpack('HH', struct.pack('HH', 1, 2))}
return {struct.unpack('>bBhHiIlL', struct.pack('>bBhHiIlL', -1, 255, -3, 4, -5, 6, -7, 8))}
return {struct.unpack('s', 'abc\0def')}
return {struct.unpack('c3', 'abcdef')}
return {struct.unpack('Bc0', '\3abcdef')}
return {struct.unpack('i4', 'ab')}
return {struct.unpack('s', 'abc')}
return {struct.unpack('c0', 'abc')}
return {struct.unpack('H', '\1\0\2\0', 3)}
return {struct.unpack('H', 'ab', 0)}
return tostring((struct.unpack('d', struct.pack('d', 0.1))))
return {struct.size('HH'), struct.size('!4BI'), struct.size('fd'), struct.size('c10')}
return struct.size('s')
return struct.size('c0')

-- As programs have them.
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end
local c = redis.call('incr', KEYS[1]) if c == 1 then redis.call('expire', KEYS[1], 100) end return c
local token = redis.call('get', KEYS[1]) if not token or token ~= ARGV[1] then return 0 end redis.call('del', KEYS[1]) return 1
return redis.call('exists', KEYS[1]) < 1 and redis.call('setex', KEYS[1], 100, ARGV[1])
local v = redis.call('hgetall', KEYS[2]) local r = {} for i = 1, #v, 2 do r[v[i]] = v[i + 1] end return cjson.encode(r)
redis.call('del', KEYS[1]) for i, v in ipairs({5, 3, 9}) do redis.call('zadd', KEYS[1], v, 'm' .. v) end return redis.call('zrange', KEYS[1], 0, -1)
local ids = redis.call('zrangebyscore', KEYS[1], 0, 5) if #ids > 0 then redis.call('zrem', KEYS[1], unpack(ids)) end return ids
local t = redis.call('time') return #t
local job = cmsgpack.pack({id = 1, data = ARGV[1]}) return cmsgpack.unpack(job).data
#!lua
#!lua flags=no-writes
