-- Gives two arguments to the libraries; answers 1 unless a value changes on its way through one.
local a, b = ARGV[1], ARGV[2]
local ok, value = pcall(cjson.decode, a)
if ok then
  local ok, text = pcall(cjson.encode, value)
  if ok and cjson.encode(cjson.decode(text)) ~= text and not text:find('{') then return text end
end
if cmsgpack.unpack(cmsgpack.pack(a)) ~= a then return a end
if cjson.decode(cjson.encode(a)) ~= a then return a end
pcall(cmsgpack.unpack, a)
pcall(cmsgpack.unpack_limit, a, 2, #b)
pcall(struct.unpack, a, b)
pcall(struct.pack, a, b, 1, b, 2)
pcall(struct.size, a)
pcall(string.find, b, a)
pcall(string.gsub, b, a, b)
pcall(string.format, a, b, 1, 2)
pcall(loadstring, a)
pcall(function() for _ in b:gmatch(a) do end end)
return 1
