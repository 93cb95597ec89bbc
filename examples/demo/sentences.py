"""What the demo embeds."""

# Three pairs that mean the same in other words, and one sentence that has nothing to do with them.
ALIKE = (
    "A man is playing a guitar on the street.",
    "Someone performs music with a string instrument outdoors.",
    "The central bank raised interest rates again.",
    "Borrowing money has become more expensive.",
    "The kitten fell asleep on the warm windowsill.",
    "A small cat is napping in the sun.",
    "How do I reset the password of my account?",
)

# For the load: sentences of many lengths, as they come in search boxes, tickets and news.
MANY = (
    "Where is my parcel?",
    "The train to Zürich leaves from platform seven at half past nine.",
    "I was charged twice for the same order and would like my money back.",
    "Heavy rain is expected in the north, with strong winds along the coast.",
    "Please cancel my subscription.",
    "The committee postponed its decision until the report has been reviewed by an independent expert.",
    "Waterproof hiking boots, size 43",
    "Scientists have found a new species of frog in the rain forest.",
    "Is there a vegetarian option on the menu?",
    "The battery lasts about ten hours, but charging it takes half the night.",
    "Our flight was delayed by three hours because of fog.",
    "She finished the marathon in just under four hours.",
    "Cannot connect to the database: connection refused",
    "The museum is closed on Mondays and public holidays.",
    "He apologised for the mistake and promised that it would not happen again.",
    "Unemployment fell to its lowest level in two decades, although wages hardly rose.",
    "best noise cancelling headphones under 200",
    "The old bridge was built of granite and has withstood every flood for three hundred years.",
    "My screen stays black after the latest update.",
    "Add the flour slowly, stirring all the time, until the dough no longer sticks to the bowl.",
    "Two goals in the last five minutes turned the match around.",
    "The patient reported mild headaches and trouble sleeping, but no fever.",
    "A used bicycle in good condition, with lights and a basket",
    "The company plans to open a second factory next spring and to hire four hundred people.",
    "Children under six travel free of charge.",
    "The telescope took a picture of a galaxy whose light has travelled for thirteen billion years.",
    "Could you explain how compound interest works, with an example that a twelve-year-old would understand?",
    "No.",
    "The author describes, with great patience and a dry sense of humour, how three generations of one family "
    "kept a small bakery alive through wars, floods and fashions, and why the fourth had to close it.",
    "Turn left at the church, then follow the river for two kilometres until you see the mill.",
)
