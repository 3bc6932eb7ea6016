local function answer()
  return 42
end
