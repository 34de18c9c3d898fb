-- Turns PUC Lua's libraries into those that a script finds in Karmada.
-- `check` raises once the call's time is over, else returns its arguments; `number` writes a number as gopher-lua does.
-- With `reversed`, `pairs` walks the names of a table backwards.
local check, number, text_limit, reversed = ...

local function refuse(name)
  return function()
    error("call function " .. name .. " is not supported in karmada customized resourceinterpreter.", 2)
  end
end

local error, select, type, tostring, pcall, insert = error, select, type, tostring, pcall, table.insert

-- A caught time-out would let the script go on: look at the clock again behind each pcall.
function _G.pcall(...)
  return check(pcall(...))
end

-- Lua runs a handler of its own while the hook that raised is still active, hence without a clock. Here it runs after.
function _G.xpcall(f, handler)
  local function settle(ok, ...)
    check()
    if ok then
      return ok, ...
    end
    local handled, result = check(pcall(handler, ...))
    return false, result
  end
  return settle(pcall(f))
end

-- Without an item to remove, gopher-lua returns nil where Lua returns nothing.
local remove = table.remove
function table.remove(...)
  local item = remove(...)
  return item
end

-- Lua moves items one by one down to a position far below 1, without a clock; gopher-lua just sets it.
function table.insert(t, ...)
  local position, value = ...
  if select("#", ...) == 2 and type(t) == "table" and type(position) == "number"
    and (position <= 0 or position > #t) then
    t[position] = value
    return
  end
  return insert(t, ...)
end

for _, name in ipairs({
  "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal", "rawget",
  "rawset", "setfenv", "setmetatable", "module", "newproxy",
}) do
  _G[name] = refuse(name)
end
for _, name in ipairs({"coroutine", "gcinfo", "debug", "io", "jit"}) do
  _G[name] = nil
end
-- Karmada's controllers print to their own log; here nobody reads it.
function _G.print() end

for _, name in ipairs({"foreach", "foreachi", "setn"}) do
  table[name] = nil
end
for _, name in ipairs({"clock", "difftime", "execute", "exit", "getenv", "remove", "rename", "setlocale", "tmpname"}) do
  os[name] = nil
end

local function limited(f, texts)
  return function(...)
    for i = 1, texts do
      local text = select(i, ...)
      if type(text) == "string" and #text > text_limit then
        error("string length " .. #text .. " exceeds the maximum allowed input string length " .. text_limit
          .. " in Karmada lua string lib, please check your lua script.", 2)
      end
    end
    return f(...)
  end
end

-- gopher-lua takes a single % at the end of a pattern for something that no text has.
local find, match, gmatch, sub = string.find, string.match, string.gmatch, string.sub
local function fits_nothing(pattern)
  return #match(pattern, "%%*$") % 2 == 1
end

function string.find(text, pattern, from, plain)
  if pattern == "" then
    return 1, 0
  elseif not plain and fits_nothing(pattern) then
    return nil
  elseif not plain and find(pattern, ")", 1, true) and not find(pattern, "[%^$*+?.([%%-]") then
    -- Lua searches for such a pattern as a text.
    error("malformed pattern: ) without (")
  end
  return find(text, pattern, from, plain)
end

-- Without a match gopher-lua returns nothing where Lua returns nil.
local function captures(first, ...)
  if first ~= nil then
    return first, ...
  end
end

function string.match(text, pattern, from)
  if fits_nothing(pattern) then
    return
  end
  return captures(match(text, pattern, from))
end

-- In gopher-lua a pattern that begins with ^ is found at the beginning alone.
function string.gmatch(text, pattern)
  if fits_nothing(pattern) then
    return function() end
  elseif sub(pattern, 1, 1) ~= "^" then
    return gmatch(text, pattern)
  end
  local is_over = false
  return function()
    if not is_over then
      is_over = true
      return captures(match(text, pattern))
    end
  end
end
string.gfind = string.gmatch

for name, texts in pairs({
  byte = 1, find = 2, format = 1, gfind = 2, gmatch = 2, lower = 1, match = 2, reverse = 1, sub = 1, upper = 1,
}) do
  string[name] = limited(string[name], texts)
end
for _, name in ipairs({"dump", "gsub", "rep"}) do
  string[name] = function()
    error("The Lua function string." .. name .. " is not supported by Karmada.", 2)
  end
end

function _G.tostring(...)
  if type((...)) == "number" then
    return number((...))
  end
  return tostring(...)
end

-- In Karmada `pairs` has no order. What comes out the same both ways probably does not depend on one.
if reversed then
  local next = next
  function _G.pairs(t)
    local keys, listed = {}, #t
    for i = 1, listed do
      keys[i] = i
    end
    local names = {}
    for key in next, t do
      if not (type(key) == "number" and key >= 1 and key <= listed) then
        names[#names + 1] = key
      end
    end
    for i = #names, 1, -1 do
      keys[#keys + 1] = names[i]
    end
    local at = 0
    return function()
      -- A field that was removed on the way is passed over, as `next` does.
      repeat
        at = at + 1
      until keys[at] == nil or t[keys[at]] ~= nil
      if keys[at] ~= nil then
        return keys[at], t[keys[at]]
      end
    end, t, nil
  end
end

-- gopher-lua's is the largest number, not infinity.
math.huge = 1.7976931348623157e308

local loaded = {string = string, table = table, math = math, os = os}
package = {
  preload = {},
  loaded = loaded,
  loaders = {},
  loadlib = function() error("loadlib is not supported", 2) end,
}

loaded.package = package

-- Karmada has a module kube, too, whose functions are about Pods.
function require(name)
  if loaded[name] == nil then
    error("module " .. tostring(name) .. " not found: no field package.preload['" .. tostring(name) .. "']", 2)
  end
  return loaded[name]
end
