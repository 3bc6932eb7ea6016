-- Names a function that the part does not have.
-- @lazy answers: question
return answers().question()
