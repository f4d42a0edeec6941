-- Builds the globals that scripts see, and returns the function that runs a script.
--
-- Scripts share one Lua state, so none may leave anything behind for the next. Each library is seen
-- through an empty table (its face) whose metatable reads the library and refuses writes; raw
-- writes are refused by the functions below, or wiped at the end of a script.

local native, libraries = ...

local error, getmetatable, next, pairs, rawset = error, getmetatable, next, pairs, rawset
local setmetatable, tostring, type = setmetatable, tostring, type
local pcall, xpcall, rawget, gsub = pcall, xpcall, rawget, string.gsub
local plain = native.plain
local READONLY = "Attempt to modify a readonly table"

-- Library by face.
local hidden = setmetatable({}, { __mode = "k" })

local function refuse()
  error(READONLY, 2)
end

local function face(library)
  local it = {}
  hidden[it] = library
  return setmetatable(it, { __index = library, __newindex = refuse, __metatable = false })
end

-- Functions of the language.

local globals = { _VERSION = _VERSION }
for _, name in pairs({
  "assert", "error", "getmetatable", "ipairs", "next", "rawequal", "rawget",
  "select", "tonumber", "tostring", "type",
}) do
  globals[name] = _G[name]
end

function globals.pairs(t)
  local library = hidden[t]
  if library then
    return function(_, key) return next(library, key) end, t, nil
  end
  if type(t) ~= "table" then
    error("bad argument #1 to 'pairs' (table expected, got " .. type(t) .. ")", 2)
  end
  return pairs(t)
end

local function refuse_raw()
  error({ err = "ERR " .. READONLY })
end

function globals.rawset(t, key, value)
  if hidden[t] then refuse_raw() end
  return rawset(t, key, value)
end

function globals.setmetatable(t, meta)
  if hidden[t] then refuse_raw() end
  if type(t) ~= "table" then
    error("bad argument #1 to 'setmetatable' (table expected, got " .. type(t) .. ")", 2)
  end
  return setmetatable(t, meta)
end

-- A caught error as scripts see it. Errors of natives are values of Rust's.
local function shown(e)
  if type(e) == "userdata" then e = plain(e) end
  if type(e) == "string" then return (gsub(e, "^larder:%d+: ", "")) end
  return e
end

local function caught(ok, e, ...)
  if ok then return ok, e, ... end
  -- A script that is ended by force catches nothing.
  native.must_live()
  e = shown(e)
  if type(e) == "table" then
    local text = rawget(e, "err")
    if type(text) == "string" then return false, text end
  end
  return false, e
end

-- Lua runs a handler of errors before it unwinds: without the hook that looks at the time, if the
-- hook itself has failed. So a script's handler runs after it.
local function handled(handler, ok, e, ...)
  if ok then return ok, e, ... end
  native.must_live()
  local done, other = pcall(handler, shown(e))
  if not done then
    native.must_live()
    other = shown(other)
  end
  return false, other
end

function globals.xpcall(f, handler)
  return handled(handler, pcall(f))
end

function globals.pcall(...)
  return caught(pcall(...))
end

-- Results, after a look at the time.
local function looked(...)
  native.look()
  return ...
end

function globals.loadstring(text, name)
  return looked(native.compile(text, name))
end

function globals.load(read, name)
  local parts, n = {}, 0
  while true do
    local part = read()
    if part == nil or part == "" then break end
    n = n + 1
    parts[n] = part
  end
  return looked(native.compile(libraries.table.concat(parts), name or "=(load)"))
end

function globals.collectgarbage(what)
  if what == "count" then return native.memory() end
  return 0
end

globals.gcinfo = native.memory

-- Libraries.

local lib = libraries.table
local bounded, all = lib.unpack, unpack
lib.unpack = nil

-- Natives return less than Lua's stack has room for. So long lists are unpacked by Lua itself, in
-- whose function other numbers of results overflow; but not texts: a native that gets them refers
-- to each of them.
local function is_plain(t, count)
  for at = 1, count do
    if type(rawget(t, at)) ~= "number" then return false end
  end
  return true
end

function globals.unpack(...)
  local t, from, to = ...
  if type(t) == "table" and from == nil and to == nil then
    local count = #t
    if count > 7900 and count < 8000 and is_plain(t, count) then return all(t) end
  end
  return bounded(...)
end

-- A heap sort, so that a long one can be left between two comparisons.
function lib.sort(t, less)
  if less ~= nil and type(less) ~= "function" then
    error("bad argument #2 to 'sort' (function expected, got " .. type(less) .. ")", 2)
  end
  if type(t) ~= "table" then
    error("bad argument #1 to 'sort' (table expected, got " .. type(t) .. ")", 2)
  end
  less = less or function(a, b) return a < b end
  local n = #t
  local function sink(at, last)
    local item = t[at]
    while true do
      local child = 2 * at
      if child > last then break end
      if child < last and less(t[child], t[child + 1]) then child = child + 1 end
      if not less(item, t[child]) then break end
      t[at] = t[child]
      at = child
    end
    t[at] = item
  end
  if n <= 16 then
    -- Few: by insertion.
    for i = 2, n do
      local item, at = t[i], i - 1
      while at > 0 and less(item, t[at]) do
        t[at + 1] = t[at]
        at = at - 1
      end
      t[at + 1] = item
    end
    return
  end
  for at = (n - n % 2) / 2, 1, -1 do sink(at, n) end
  for last = n, 2, -1 do
    t[1], t[last] = t[last], t[1]
    sink(1, last - 1)
  end
end

-- Coroutines nest C frames, which Lua 5.1 does not count.
local NESTED = 50
local depth = 0
local co = libraries.coroutine
local resume, create = co.resume, co.create

local function resumed(ok, e, ...)
  depth = depth - 1
  if not ok then
    native.must_live()
    e = shown(e)
  end
  return ok, e, ...
end

function co.resume(thread, ...)
  if depth >= NESTED then return false, "C stack overflow" end
  depth = depth + 1
  return resumed(resume(thread, ...))
end

local function passed(ok, ...)
  if ok then return ... end
  error((...), 3)
end

function co.wrap(f)
  local thread = create(f)
  return function(...)
    return passed(co.resume(thread, ...))
  end
end

libraries.string.gfind = libraries.string.gmatch

local faces = {}
for name, library in pairs(libraries) do
  globals[name] = face(library)
  faces[#faces + 1] = globals[name]
end

local strings = getmetatable("")
strings.__index = libraries.string
strings.__metatable = face({ __index = globals.string })
faces[#faces + 1] = strings.__metatable

local absent = {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
}
setmetatable(globals, absent)

local env = face(globals)
faces[#faces + 1] = env
globals._G = env

-- Errors.

local function handler(e)
  e = shown(e)
  if type(e) ~= "table" then e = { err = "ERR " .. tostring(e) } end
  local source, line = native.place()
  if source and not hidden[e] then
    rawset(e, "source", source)
    rawset(e, "line", line)
  end
  return e
end

globals.__redis__err__handler = handler

local function tidy(...)
  for at = 1, #faces do
    local it = faces[at]
    if next(it) ~= nil then
      for key in next, it do it[key] = nil end
    end
  end
  return ...
end

-- A value that a script could have changed must not outlive it.
local function run(f)
  depth = 0
  return tidy(xpcall(f, handler))
end

-- Functions. They have the globals of scripts, but for KEYS, ARGV and what is about debugging.

local functional, api = {}, {}
for name, value in pairs(globals) do functional[name] = value end
for name, value in pairs(libraries.redis) do api[name] = value end
api.breakpoint, api.debug, api.replicate_commands = nil, nil, nil
functional.__redis__err__handler = nil
functional.redis = face(api)
functional._G = face(functional)
setmetatable(functional, absent)
faces[#faces + 1] = functional.redis
faces[#faces + 1] = functional._G

local NAMES = "Library names can only contain letters, numbers, or underscores(_) and must be at " ..
  "least one character long"
local FLAGS = {
  ["no-writes"] = 1, ["allow-oom"] = 2, ["allow-stale"] = 4, ["no-cluster"] = 8,
  ["allow-cross-slot-keys"] = 16,
}

local function fail(text)
  error({ err = "ERR " .. text })
end

-- The text of a string or number, as in Lua's C interface.
local function text_of(value)
  if type(value) == "number" then return tostring(value) end
  return type(value) == "string" and value or nil
end

local function flags_of(list)
  if type(list) ~= "table" then
    fail("flags argument to redis.register_function must be a table representing function flags")
  end
  local flags = {}
  for at = 1, #list do
    local bit = FLAGS[list[at]]
    if not bit then fail("unknown flag given") end
    flags[bit] = true
  end
  local sum = 0
  for bit in pairs(flags) do sum = sum + bit end
  return sum
end

-- The readers of named arguments.
local named = {
  function_name = function(entry, value)
    entry.name = text_of(value)
    if not entry.name then
      fail("function_name argument given to redis.register_function must be a string")
    end
  end,
  description = function(entry, value)
    entry.description = text_of(value)
    if not entry.description then
      fail("description argument given to redis.register_function must be a string")
    end
  end,
  callback = function(entry, value)
    if type(value) ~= "function" then
      fail("callback argument given to redis.register_function must be a function")
    end
    entry.callback = value
  end,
  flags = function(entry, value) entry.flags = flags_of(value) end,
}

local function named_entry(arguments)
  if type(arguments) ~= "table" then
    fail("calling redis.register_function with a single argument is only applicable to Lua table " ..
      "(representing named arguments).")
  end
  local entry = { flags = 0 }
  for key, value in next, arguments do
    if not text_of(key) then
      fail("named argument key given to redis.register_function is not a string")
    end
    local reader = named[key]
    if not reader then fail("unknown argument given to redis.register_function") end
    reader(entry, value)
  end
  if not entry.name then fail("redis.register_function must get a function name argument") end
  if not entry.callback then fail("redis.register_function must get a callback argument") end
  return entry
end

local function entry_of(count, first, second)
  if count < 1 or count > 2 then
    fail("wrong number of arguments to redis.register_function")
  end
  if count == 1 then return named_entry(first) end
  local entry = { name = text_of(first), callback = second, flags = 0 }
  if not entry.name then
    fail("first argument to redis.register_function must be a string")
  end
  if type(second) ~= "function" then
    fail("second argument to redis.register_function must be a function")
  end
  return entry
end

local find, select = string.find, select

-- A library that is about to be loaded. Its code sees nothing but `redis`, which registers
-- functions; once it is loaded, its functions see their globals.
local function library()
  local entries, names = {}, {}
  local loading = setmetatable({}, absent)
  for name, value in pairs(api) do
    if name == "log" or find(name, "^LOG_") or find(name, "^REDIS_VERSION") then
      rawset(loading, name, value)
    end
  end
  local is_loading = true
  rawset(loading, "register_function", function(...)
    if not is_loading then
      fail("redis.register_function can only be called on FUNCTION LOAD command")
    end
    local entry = entry_of(select("#", ...), ...)
    if not find(entry.name, "^[%w_]+$") then fail(NAMES) end
    if names[entry.name] then fail("Function already exists in the library") end
    names[entry.name] = true
    entries[#entries + 1] = entry
  end)
  local it = {}
  local meta = {
    __index = setmetatable({ redis = face(loading) }, absent),
    __newindex = refuse,
    __metatable = false,
  }
  hidden[it] = meta.__index
  local env = setmetatable(it, meta)
  local function load(f)
    local ok, e = run(f)
    is_loading = false
    meta.__index = functional
    hidden[env] = functional
    return ok, ok and entries or e
  end
  return env, load
end

local function call(env, f, keys, arguments)
  local function wiped(...)
    for key in next, env do env[key] = nil end
    return ...
  end
  return wiped(run(function() return f(keys, arguments) end))
end

return run, env, globals, library, call
