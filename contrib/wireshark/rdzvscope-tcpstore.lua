-- Wireshark dissector for PyTorch's c10d TCPStore, all dialects (PyTorch 1.4 and later). Wireshark 3.4 or later.
--
-- A connection is a bare stream of requests: one byte of query type and its fields; answers come back in order. Streams are taken for
-- a store's by port (preference, Decode As, -d tcp.port==PORT,tcpstore) or by what a client says first. The numbers below are those
-- of rdzvscope (`src/protocol/tcpstore/dialect.rs`); a test holds this file against them, and against `rdzvscope messages`.

local store = Proto("tcpstore", "PyTorch TCPStore")

-- Query types by dialect; the first has number 0.
local TYPES = {
    A0 = "SET GET ADD CHECK WAIT",
    A1 = "SET GET ADD CHECK WAIT GETNUMKEYS DELETE_KEY",
    B = "SET COMPARE_SET GET ADD CHECK WAIT GETNUMKEYS WATCH_KEY DELETE_KEY",
    C = "SET COMPARE_SET GET ADD CHECK WAIT GETNUMKEYS DELETE_KEY APPEND MULTI_GET MULTI_SET CANCEL_WAIT",
    D = "VALIDATE SET COMPARE_SET GET ADD CHECK WAIT GETNUMKEYS DELETE_KEY APPEND MULTI_GET MULTI_SET CANCEL_WAIT PING "
        .. "QUEUE_PUSH QUEUE_POP QUEUE_LEN LIST_KEYS BARRIER",
}
-- After the query type. k: key, v: value, n: number of 8 bytes, m: magic or nonce of 4 bytes, K: count and keys, P: count and pairs.
local FIELDS = {
    VALIDATE = "m", SET = "kv", COMPARE_SET = "kvv", GET = "k", ADD = "kn", CHECK = "K", WAIT = "K", GETNUMKEYS = "", WATCH_KEY = "k",
    DELETE_KEY = "k", APPEND = "kv", MULTI_GET = "K", MULTI_SET = "P", CANCEL_WAIT = "", PING = "m", QUEUE_PUSH = "kv", QUEUE_POP = "k",
    QUEUE_LEN = "k", LIST_KEYS = "", BARRIER = "kn",
}
-- The answer. b: bytes with their length, n: number, s: one byte, m: nonce, B: one b a key, q: number and, when above zero, b, L: count and b.
local ANSWERS = {
    COMPARE_SET = "b", GET = "b", ADD = "n", CHECK = "s", WAIT = "s", GETNUMKEYS = "n", WATCH_KEY = "s", DELETE_KEY = "n",
    MULTI_GET = "B", CANCEL_WAIT = "s", PING = "m", QUEUE_POP = "q", QUEUE_LEN = "n", LIST_KEYS = "L", BARRIER = "s",
}
-- A length above this many bytes, or a count above this many keys, is shown as a claim and not waited for.
local CLAIM_BYTES, CLAIM_KEYS = 64 * 1024 * 1024, 1024 * 1024
local MAGIC = "00cef7853c"

local OPERATIONS = {}
for dialect, names in pairs(TYPES) do
    local list, n = {}, 0
    for name in names:gmatch("%S+") do
        list[n] = name
        n = n + 1
    end
    OPERATIONS[dialect] = list
end

local f = {
    query = ProtoField.string("tcpstore.query", "Query"),
    type = ProtoField.uint8("tcpstore.type", "Query type"),
    dialect = ProtoField.string("tcpstore.dialect", "Dialect"),
    offset = ProtoField.uint64("tcpstore.offset", "Stream offset"),
    length = ProtoField.uint64("tcpstore.length", "Length of the message"),
    key = ProtoField.string("tcpstore.key", "Key"),
    key_length = ProtoField.uint64("tcpstore.key_length", "Key length"),
    value_length = ProtoField.uint64("tcpstore.value_length", "Value length"),
    value = ProtoField.bytes("tcpstore.value", "Value"),
    number = ProtoField.int64("tcpstore.number", "Number"),
    count = ProtoField.uint64("tcpstore.count", "Number of keys"),
    magic = ProtoField.uint32("tcpstore.magic", "Magic", base.HEX),
    nonce = ProtoField.uint32("tcpstore.nonce", "Nonce"),
    status = ProtoField.uint8("tcpstore.status", "Status", base.DEC, { [0] = "ready, stop waiting", [1] = "not ready, wait cancelled", [3] = "callback registered" }),
    answer_to = ProtoField.framenum("tcpstore.answer_to", "Answer to the request in"),
    answer = ProtoField.string("tcpstore.answer", "Answer to"),
    rest = ProtoField.bytes("tcpstore.undecoded", "Not decoded"),
}
store.fields = { f.query, f.type, f.dialect, f.offset, f.length, f.key, f.key_length, f.value_length, f.value, f.number, f.count, f.magic, f.nonce,
    f.status, f.answer_to, f.answer, f.rest }
local e_claim = ProtoExpert.new("tcpstore.claim", "A declared length or count that no store client declares", expert.group.MALFORMED, expert.severity.ERROR)
local e_type = ProtoExpert.new("tcpstore.unknown", "No query type of this dialect", expert.group.MALFORMED, expert.severity.WARN)
store.experts = { e_claim, e_type }
store.prefs.ports = Pref.range("Ports", "29500,29400,23456", "TCP ports of stores", 65535)
store.prefs.dialect = Pref.string("Dialect", "", "A0, A1, B, C or D; empty: told by what clients say first")

local stream_field = Field.new("tcp.stream")
local streams, servers = {}, {}

local function dialect_of(first, server)
    if store.prefs.dialect ~= "" and OPERATIONS[store.prefs.dialect] then return store.prefs.dialect end
    if first:sub(1, 4) == "00ce" then return "D" end
    if first:sub(1, 2) == "02" and (#first == 2 or first:sub(3, 18) == "0500000000000000") then return "A1" end
    return servers[server] or "B"
end

-- The state of a connection. The side whose port is a store's is the server; else the one that did not speak first.
local function state_of(pinfo, tvb)
    local all = { stream_field() }
    local id = all[#all].value
    local s = streams[id]
    if s == nil then
        local ports = "," .. tostring(store.prefs.ports) .. ","
        local to_server = true
        if ports:find("," .. pinfo.src_port .. ",", 1, true) and not ports:find("," .. pinfo.dst_port .. ",", 1, true) then to_server = false end
        local server = to_server and pinfo.dst_port or pinfo.src_port
        s = { port = server, address = tostring(to_server and pinfo.dst or pinfo.src), done = { [true] = 0, [false] = 0 }, seen = {}, pending = {}, over = {} }
        streams[id] = s
    end
    local to_server = pinfo.dst_port == s.port and (pinfo.src_port ~= s.port or tostring(pinfo.dst) == s.address)
    if to_server and s.dialect == nil and tvb:len() > 0 then
        s.dialect = dialect_of(tostring(tvb(0, math.min(tvb:len(), 9)):bytes()):lower(), s.address .. ":" .. s.port)
    end
    return s, to_server
end

-- Reads fields from a buffer; `fail` is "more" where bytes are missing and "claim" where a length is one that nobody waits for.
local Reader = {}
Reader.__index = Reader
local function reader(tvb, at) return setmetatable({ tvb = tvb, at = at, items = {} }, Reader) end
function Reader:take(n)
    if self.fail then return nil end
    if self.at + n > self.tvb:len() then
        self.fail = "more"
        return nil
    end
    local range = n > 0 and self.tvb(self.at, n) or nil
    self.at = self.at + n
    return range
end
function Reader:add(field, range, value) table.insert(self.items, { field, range, value }) end
function Reader:u64(field, limit)
    local range = self:take(8)
    if not range then return nil end
    local value = range:le_uint64()
    self:add(field, range, value)
    if limit and (value:higher() ~= 0 or value:lower() > limit) then
        self.fail, self.claim = "claim", value
        return nil
    end
    return value:lower()
end
function Reader:key(first)
    local n = self:u64(f.key_length, CLAIM_BYTES)
    if not n then return end
    local range = self:take(n)
    if self.fail then return end
    local name = range and range:string(ENC_UTF_8) or ""
    self:add(f.key, range, name)
    if first or self.first == nil then self.first = name end
end
function Reader:bytes()
    local n = self:u64(f.value_length, CLAIM_BYTES)
    if n then
        local range = self:take(n)
        if range then self:add(f.value, range) end
    end
end
function Reader:number()
    local range = self:take(8)
    if range then self:add(f.number, range, range:le_int64()) end
    return range and range:le_int64()
end
function Reader:small(field)
    local range = self:take(4)
    if range then self:add(field, range, range:le_uint()) end
end
function Reader:count()
    return self:u64(f.count, CLAIM_KEYS)
end

local function request(r, name)
    local what = FIELDS[name]
    for i = 1, #what do
        local c = what:sub(i, i)
        if c == "k" then r:key()
        elseif c == "v" then r:bytes()
        elseif c == "n" then r:number()
        elseif c == "m" then r:small(name == "PING" and f.nonce or f.magic)
        else
            local n = r:count() or 0
            r.keys = n
            for _ = 1, n do
                r:key()
                if c == "P" then r:bytes() end
                if r.fail then break end
            end
        end
    end
end

local function answer(r, name, keys)
    local what = ANSWERS[name]
    if what == "b" then r:bytes()
    elseif what == "n" then r:number()
    elseif what == "m" then r:small(f.nonce)
    elseif what == "s" then
        local range = r:take(1)
        if range then
            r:add(f.status, range, range:uint())
            r.status = range:uint()
        end
    elseif what == "B" then
        for _ = 1, keys or 0 do
            r:bytes()
            if r.fail then break end
        end
    elseif what == "q" then
        local n = r:number()
        if n and n > Int64(0) then r:bytes() end
    elseif what == "L" then
        local n = r:count() or 0
        for _ = 1, n do
            r:key()
            if r.fail then break end
        end
    end
end

local function show(tree, tvb, from, to, r, title)
    local t = tree:add(store, tvb(from, to - from), title)
    for _, item in ipairs(r.items) do
        local field, range, value = item[1], item[2], item[3]
        if range == nil then t:add(field, tvb(to - 1, 0), value)
        elseif value == nil then t:add(field, range)
        else t:add(field, range, value) end
    end
    return t
end

-- One request at `at`: its end, or nil and why.
local function one_request(s, tvb, pinfo, tree, at, offset)
    local byte = tvb(at, 1):uint()
    local name = OPERATIONS[s.dialect][byte]
    -- What only the newer of two dialects has settles it.
    if s.dialect == "B" and (byte == 9 or byte == 10 or byte == 11) then s.dialect = "C" end
    if s.dialect == "B" then name = OPERATIONS.B[byte] elseif s.dialect == "C" then name = OPERATIONS.C[byte] end
    if name == nil then return nil, "unknown" end
    local r = reader(tvb, at + 1)
    request(r, name)
    if r.fail == "more" then return nil, "more" end
    local stop = r.fail == "claim" and tvb:len() or r.at
    local shown = name .. (r.first and (" " .. r.first) or "")
    local t = show(tree, tvb, at, stop, r, "TCPStore " .. shown)
    t:add(f.query, tvb(at, 1), name)
    t:add(f.type, tvb(at, 1))
    t:add(f.dialect, tvb(at, 1), s.dialect):set_generated()
    t:add(f.offset, tvb(at, 1), UInt64(offset)):set_generated()
    t:add(f.length, tvb(at, 1), UInt64(stop - at)):set_generated()
    pinfo.cols.info:append((s.listed == pinfo.number and ", " or "") .. shown)
    s.listed = pinfo.number
    if r.fail == "claim" then
        t:add_proto_expert_info(e_claim, name .. " declares " .. tostring(r.claim))
        return nil, "claim"
    end
    -- Up to 2.0 a client whose wait times out goes on without a word: nothing will answer that wait.
    local last = s.pending[#s.pending]
    if not pinfo.visited and last and last.name == "WAIT" and (s.dialect == "A0" or s.dialect == "A1" or s.dialect == "B") then
        table.remove(s.pending)
    end
    if not pinfo.visited and ANSWERS[name] then table.insert(s.pending, { name = name, keys = r.keys, frame = pinfo.number }) end
    return r.at
end

-- The request that comes next to be answered. A wait that is cancelled is answered 1, or 0 and then 1.
local function next_pending(s, status)
    local p = table.remove(s.pending, 1)
    local following = s.pending[1]
    if p and following and following.name == "CANCEL_WAIT" and (p.name == "WAIT" or p.name == "BARRIER") and status == 1 then
        table.remove(s.pending, 1)
    end
    return p
end

local function one_answer(s, tvb, pinfo, tree, at, offset)
    local key = pinfo.number .. ":" .. at .. ":" .. offset
    local p = s.seen[key]
    if p == nil then p = s.pending[1] end
    if p == nil then return nil, "unknown" end
    local r = reader(tvb, at)
    answer(r, p.name, p.keys)
    if r.fail == "more" then return nil, "more" end
    if s.seen[key] == nil then
        next_pending(s, r.status)
        s.seen[key] = p
    end
    local stop = r.fail == "claim" and tvb:len() or r.at
    local t = show(tree, tvb, at, math.max(stop, at + 1), r, "TCPStore answer to " .. p.name)
    t:add(f.answer, tvb(at, 1), p.name):set_generated()
    t:add(f.answer_to, tvb(at, 1), p.frame):set_generated()
    t:add(f.offset, tvb(at, 1), UInt64(offset)):set_generated()
    t:add(f.length, tvb(at, 1), UInt64(stop - at)):set_generated()
    pinfo.cols.info:append((s.listed == pinfo.number and ", " or "") .. "answer to " .. p.name)
    s.listed = pinfo.number
    if r.fail == "claim" then
        t:add_proto_expert_info(e_claim, "An answer declares " .. tostring(r.claim))
        return nil, "claim"
    end
    return r.at
end

function store.dissector(tvb, pinfo, tree)
    if tvb:len() == 0 then return 0 end
    local s, to_server = state_of(pinfo, tvb)
    -- Where this buffer begins in its stream: counted on the first pass, kept for later ones.
    local key = tostring(to_server) .. pinfo.number .. ":" .. tvb:offset()
    local base_offset = s.seen[key]
    if base_offset == nil then
        base_offset = s.done[to_server]
        s.seen[key] = base_offset
    end
    pinfo.cols.protocol = "TCPStore"
    if s.listed ~= pinfo.number then pinfo.cols.info = "" end
    local at, why = 0, nil
    local visited = pinfo.visited
    while at < tvb:len() do
        local stop
        if s.over[to_server] and s.over[to_server] < base_offset + at then why = "claim" break end
        if to_server then
            stop, why = one_request(s, tvb, pinfo, tree, at, base_offset + at)
        else
            stop, why = one_answer(s, tvb, pinfo, tree, at, base_offset + at)
        end
        if stop == nil then break end
        at = stop
    end
    if at < tvb:len() and why == "more" then
        if not visited then s.done[to_server] = base_offset + at end
        pinfo.desegment_offset = at
        pinfo.desegment_len = DESEGMENT_ONE_MORE_SEGMENT
        return tvb:len()
    end
    if at < tvb:len() then
        local t = tree:add(store, tvb(at), why == "claim" and "TCPStore: part of what was declared" or "TCPStore: not decoded")
        if why == "unknown" then t:add_proto_expert_info(e_type) end
        t:add(f.rest, tvb(at))
        if s.over[to_server] == nil then s.over[to_server] = base_offset + at end
    end
    if not visited then s.done[to_server] = base_offset + tvb:len() end
    if s.dialect == "C" or s.dialect == "A1" or s.dialect == "D" then servers[s.address .. ":" .. s.port] = s.dialect end
    return tvb:len()
end

-- Of any other port: a client that begins with the validate magic, or with a whole request whose first key is a store's.
local function begins_as_client(tvb)
    if tvb:len() < 5 then return false end
    if tostring(tvb(0, 5):bytes()):lower() == MAGIC then return true end
    if tvb:len() < 15 or tvb(0, 1):uint() > 11 then return false end
    local n = tvb(1, 8):le_uint64()
    if n:higher() ~= 0 or n:lower() < 2 or n:lower() > 1024 or tvb:len() < 9 + n:lower() then return false end
    local key = tvb(9, n:lower()):raw()
    return key == "init/" or key:sub(1, 1) == "/"
end

store:register_heuristic("tcp", function(tvb, pinfo, tree)
    local all = { stream_field() }
    if streams[all[#all].value] == nil and not begins_as_client(tvb) then return false end
    store.dissector(tvb, pinfo, tree)
    return true
end)

local tcp_ports = DissectorTable.get("tcp.port")
tcp_ports:add(store.prefs.ports, store)
local bound = store.prefs.ports
function store.prefs_changed()
    if bound ~= store.prefs.ports then
        tcp_ports:remove(bound, store)
        tcp_ports:add(store.prefs.ports, store)
        bound = store.prefs.ports
    end
end
function store.init()
    streams, servers = {}, {}
end
