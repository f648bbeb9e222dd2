-- Forgets a completed run. ARGV: -, version, run.
-- Returns {'forgotten'} or {'missing'}.

local entry = completed(ARGV[3])
drop(ARGV[3])
return {entry and 'forgotten' or 'missing'}
