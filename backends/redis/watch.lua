-- Looks whether something was done to a hold that no renewal has told of: it is gone, or
-- has a notice. Changes nothing. ARGV: ID, version. Returns {'news' or 'none'}.

local mine = standing(id)
local quiet = mine and holds(mine) and (mine.told or not mine.notice)
return {quiet and 'none' or 'news'}
