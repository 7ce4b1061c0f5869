"""May the train error be taken for the test error?"""
