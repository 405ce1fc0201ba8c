// A program as Kotlin compiles it: the scopes of `use` are inlined, and close their transaction in another function.

import cedrat.persist.Store
import cedrat.persist.Transaction
import java.nio.file.Path

class Account(var balance: Int) {
    val transfers: MutableList<String> = ArrayList()
}

class Refused(why: String) : RuntimeException(why)

fun transfer(from: Account, to: Account, amount: Int) {
    Transaction.begin().use { transaction ->
        from.balance -= amount
        to.balance += amount
        to.transfers.add("$amount")
        if (from.balance < 0) throw Refused("too little")
        transaction.commit()
    }
}

fun withdrawn(from: Account, amount: Int): Int {
    Transaction.begin().use { transaction ->
        if (from.balance < amount) return 0
        from.balance -= amount
        transaction.commit()
        return amount
    }
}

fun nested(account: Account) {
    Transaction.begin().use { outer ->
        Transaction.begin().use { inner ->
            account.balance += 1
            inner.commit()
        }
        for (amount in 1..3) {
            if (amount == 2) continue
            account.balance += amount
        }
        outer.commit()
    }
}

fun locals(): Int {
    var local = 3
    try {
        Transaction.begin().use {
            local = 9
            throw Refused("always")
        }
    } catch (expected: Refused) {
        return local
    }
}

fun rolledBack(): Int {
    var local = 3
    Transaction.begin().use { transaction ->
        local = 9
        transaction.rollback()
    }
    return local
}

fun main(arguments: Array<String>) {
    Store.open(Path.of(arguments[0])).use { store ->
        val accounts: List<Account> = if (arguments[1] == "create") {
            val made = listOf(Account(100), Account(0))
            Transaction.begin().use { transaction ->
                store.setRoot("accounts", made)
                transaction.commit()
            }
            made
        } else {
            store.root("accounts", List::class.java)
        }
        val (one, other) = accounts
        transfer(one, other, 40)
        try {
            transfer(one, other, 1000)
            error("not refused")
        } catch (expected: Refused) {
            check(expected.suppressed.isEmpty())
        }
        check(withdrawn(one, 1000) == 0)
        check(withdrawn(other, 10) == 10)
        nested(other)
        Transaction.run<RuntimeException>(Transaction.PlainWork { one.balance += 5 })
        check(locals() == 3)
        check(rolledBack() == 3)
        println("${one.balance} ${other.balance} ${other.transfers}")
    }
}
